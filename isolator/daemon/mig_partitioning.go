package daemon

import (
	"context"
	"fmt"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/mig"
	"mesos-gpu/isolator/share"
)

// migPrefix begins the UUID of each MIG device.
const migPrefix = "MIG-"

// partitionInterval is how often a GPU that waits to be cut is looked at.
const partitionInterval = 5 * time.Second

// changesMIG tells that the daemon may cut GPUs.
func (c DaemonConfig) changesMIG() bool { return c.MIG != "" && c.MIG != mig.None || c.MIGLayout != "" }

// runUntilDone runs all parts, again and again with the devices that there are after
// GPUs were cut.
func (d *Daemon) runUntilDone(ctx context.Context, hardware Hardware, cutter *mig.Partitioner) error {
	// Before the books are open none of what is there may end.
	idle := func(string) bool { return false }
	for {
		if d.cfg.changesMIG() {
			cutter.ApplyLayouts(idle)
			h, err := hardware.Rediscover()
			if err != nil {
				return fmt.Errorf("discover GPUs: %w", err)
			}
			hardware.Host = h
		}
		if d.cfg.OnDiscovered != nil {
			d.cfg.OnDiscovered(hardware.Host)
		}
		again := false
		parts, err := d.newComponents(ctx, hardware, cutter, func() { again = true })
		if err != nil {
			return err
		}
		if err := runAll(ctx, parts); err != nil || !again {
			return err
		}
		// The provider is gone, so that no launch that needs a slice can begin.
		held, err := d.devicesInUse(ctx)
		h := hardware.Host
		idle = func(uuid string) bool { return err == nil && !hasMIGDeviceInUse(h, uuid, held) }
	}
}

// repartitionWhenIdle ends all parts once a GPU can be cut as was asked for; never at
// once, whatever came of the last cut.
func (d *Daemon) repartitionWhenIdle(h gpu.Host, cutter *mig.Partitioner, booked func() map[string]share.DeviceUse, again func()) component {
	return func(ctx context.Context) error {
		tick := time.NewTicker(partitionInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-cutter.LayoutRequested():
			case <-tick.C:
			}
			if cutter.HasPending() {
				held, err := d.devicesInUse(ctx)
				due := cutter.ListDue(func(uuid string) bool {
					return err == nil && !hasMIGDeviceInUse(h, uuid, held) && !hasMIGDeviceInUse(h, uuid, booked())
				})
				if len(due) > 0 {
					d.cfg.Log.WithField("gpus", due).Info("GPUs are cut anew: all leave the offers for a moment")
					again()
					return nil
				}
			}
		}
	}
}

func (d *Daemon) devicesInUse(ctx context.Context) (map[string]share.DeviceUse, error) {
	return advertise.ReadDevicesInUse(ctx, advertise.ProviderConfig{
		AgentURL: d.cfg.AgentURL, StateDir: d.cfg.StateDir, Authorization: d.cfg.Authorization, TLS: d.cfg.TLS, Log: d.cfg.Log,
	})
}

// hasMIGDeviceInUse reports whether anybody has a slice of that GPU.
func hasMIGDeviceInUse(h gpu.Host, uuid string, held map[string]share.DeviceUse) bool {
	for _, d := range h.Devices {
		if d.MIG != nil && d.MIG.Parent == uuid && held[d.UUID] != (share.DeviceUse{}) {
			return true
		}
	}
	return false
}

// checkNotStock is an error where a GPU may be cut whose slices stand, counted, in
// the agent's flags.
func checkNotStock(cutter *mig.Partitioner, aside []gpu.Device) error {
	for _, d := range aside {
		if d.MIG != nil && cutter.CanPartition(d.MIG.Parent) {
			return fmt.Errorf("GPU %s is among --mig and --stock: what is counted in the agent's flags cannot be cut", d.MIG.Parent)
		}
	}
	return nil
}
