package socket

import (
	"context"
	"fmt"
	"slices"

	"mesos-gpu/gpu"
)

// ReadUsage returns the utilization of a container's devices: the given ones,
// or all that it holds. shared means that the container has only shares of
// them; then the memory is the container's own, if its limiter measures that,
// except on devices of which the container has all.
// The result has the time of the oldest sample, so that devices that do not
// answer look outdated.
func (c *DaemonClient) ReadUsage(ctx context.Context, container string, devices []string, shared bool) (gpu.TaskUsage, error) {
	host, err := c.HostDriver(ctx)
	if err != nil {
		return gpu.TaskUsage{}, err
	}
	own := ContainerUsage{}
	if shared || len(devices) == 0 {
		if own, err = c.ContainerUsage(ctx, container); err != nil {
			return gpu.TaskUsage{}, err
		}
	}
	if len(devices) == 0 {
		for _, d := range own.Devices {
			devices = append(devices, d.Device)
		}
	}
	all, err := c.ListDevices(ctx)
	if err != nil {
		return gpu.TaskUsage{}, err
	}
	use := gpu.TaskUsage{Simulated: host.Simulated, Devices: []gpu.DeviceUsage{}}
	for _, uuid := range devices {
		i := slices.IndexFunc(all, func(d DeviceInfo) bool { return d.Device.UUID == uuid })
		if i < 0 {
			return gpu.TaskUsage{}, fmt.Errorf("measure device %s: it is not among the %d of the agent daemon at %s", uuid, len(all), c.path)
		}
		d := &all[i]
		u := gpu.UsageOf(uuid, d.Condition.Health, d.Sample)
		if shared && !d.Share.isAllOf(container) {
			applyShareUsage(&u, own.Shares)
		}
		if s := d.Sample; s != nil && (use.Time.IsZero() || s.At.Before(use.Time)) {
			use.Time = s.At
		}
		use.Devices = append(use.Devices, u)
	}
	return use, nil
}

// isAllOf reports whether a container has all of the device.
func (s *DeviceSharing) isAllOf(container string) bool {
	return s != nil && slices.Contains(s.Containers, ContainerShare{Container: container, MemMiB: s.MemMiB, Cores: s.Cores})
}

// applyShareUsage replaces the device's memory by the container's own.
func applyShareUsage(u *gpu.DeviceUsage, usages []ShareUsage) {
	u.Shared, u.MemUsedMiB, u.MemMiB = true, nil, nil
	i := slices.IndexFunc(usages, func(p ShareUsage) bool { return p.Device == u.UUID })
	if i < 0 {
		return
	}
	p := &usages[i]
	u.MemMiB, u.ThrottledSeconds = mebibytesPtr(p.MemLimitBytes), p.ThrottledSeconds
	if p.MemUsedBytes != nil {
		u.MemUsedMiB = mebibytesPtr(*p.MemUsedBytes)
	}
}

func mebibytesPtr(bytes int64) *float64 {
	m := float64(bytes) / (1 << 20)
	return &m
}
