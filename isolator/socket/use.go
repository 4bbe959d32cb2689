package socket

import (
	"context"
	"fmt"
	"slices"

	"mesos-gpu/gpu"
)

// Use is what the devices of a container do now: those named, or without names
// those that it holds. With parts it has only parts of them, and the memory is
// its own, as far as what limits it measures that. Its time is that of the
// oldest sample, so that devices that do not answer look old.
func (c *Client) Use(ctx context.Context, container string, devices []string, parts bool) (gpu.Usage, error) {
	host, err := c.Host(ctx)
	if err != nil {
		return gpu.Usage{}, err
	}
	own := Usage{}
	if parts || len(devices) == 0 {
		if own, err = c.Usage(ctx, container); err != nil {
			return gpu.Usage{}, err
		}
	}
	if len(devices) == 0 {
		for _, d := range own.Devices {
			devices = append(devices, d.Device)
		}
	}
	all, err := c.Devices(ctx)
	if err != nil {
		return gpu.Usage{}, err
	}
	use := gpu.Usage{Simulated: host.Simulated, Devices: []gpu.DeviceUsage{}}
	for _, uuid := range devices {
		i := slices.IndexFunc(all, func(d Device) bool { return d.Device.UUID == uuid })
		if i < 0 {
			return gpu.Usage{}, fmt.Errorf("measure device %s: it is not among the %d of the agent daemon at %s", uuid, len(all), c.path)
		}
		d := &all[i]
		u := gpu.UsageOf(uuid, d.Condition.Health, d.Sample)
		if parts {
			ofPart(&u, own.Parts)
		}
		if s := d.Sample; s != nil && (use.Time.IsZero() || s.At.Before(use.Time)) {
			use.Time = s.At
		}
		use.Devices = append(use.Devices, u)
	}
	return use, nil
}

// ofPart leaves nothing of the neighbours' memory.
func ofPart(u *gpu.DeviceUsage, parts []PartUsage) {
	u.Shared, u.MemUsedMiB, u.MemMiB = true, nil, nil
	i := slices.IndexFunc(parts, func(p PartUsage) bool { return p.Device == u.UUID })
	if i < 0 {
		return
	}
	p := &parts[i]
	u.MemMiB, u.ThrottledSeconds = mebibytes(p.MemLimitBytes), p.ThrottledSeconds
	if p.MemUsedBytes != nil {
		u.MemUsedMiB = mebibytes(*p.MemUsedBytes)
	}
}

func mebibytes(bytes int64) *float64 {
	m := float64(bytes) / (1 << 20)
	return &m
}
