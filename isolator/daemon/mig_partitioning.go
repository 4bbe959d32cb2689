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

// migPrefix begins the UUID of every MIG device.
const migPrefix = "MIG-"

// partitionInterval is how often a GPU that waits to be partitioned is checked.
const partitionInterval = 5 * time.Second

// changesMIG reports whether the daemon may partition GPUs.
func (c DaemonConfig) changesMIG() bool { return c.MIG != "" && c.MIG != mig.None || c.MIGLayout != "" }

// runUntilDone runs all components, and runs them again with the new devices after each
// partitioning, and when a lost GPU is back.
func (d *Daemon) runUntilDone(ctx context.Context, hardware Hardware, partitioner *mig.Partitioner) error {
	// Before the allocations are open, no instance may be removed.
	idle := func(string) bool { return false }
	for again := false; ; {
		if d.cfg.changesMIG() {
			partitioner.ApplyLayouts(idle)
		}
		if d.cfg.changesMIG() || again {
			h, err := hardware.Rediscover()
			if err != nil {
				return fmt.Errorf("discover GPUs: %w", err)
			}
			hardware.Host = h
		}
		d.rememberDevices(hardware.Host)
		if d.cfg.OnDiscovered != nil {
			d.cfg.OnDiscovered(hardware.Host.WithLost())
		}
		again = false
		components, err := d.newComponents(ctx, hardware, partitioner, func() { again = true })
		if err != nil {
			return err
		}
		if err := runAll(ctx, components); err != nil || !again {
			return err
		}
		// The provider is disconnected: no launch that needs a MIG device can start.
		held, err := d.devicesInUse(ctx)
		h := hardware.Host
		idle = func(uuid string) bool { return err == nil && !hasMIGDeviceInUse(h, uuid, held) }
	}
}

// repartitionWhenIdle ends all components when a GPU can be partitioned as requested. It never
// does so at once after it starts, so that failing attempts do not follow each other.
func (d *Daemon) repartitionWhenIdle(h gpu.Host, partitioner *mig.Partitioner, devicesInUseHere func() map[string]share.DeviceUse, again func()) component {
	return func(ctx context.Context) error {
		tick := time.NewTicker(partitionInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-partitioner.LayoutRequested():
			case <-tick.C:
			}
			if partitioner.HasPending() {
				held, err := d.devicesInUse(ctx)
				due := partitioner.ListDue(func(uuid string) bool {
					return err == nil && !hasMIGDeviceInUse(h, uuid, held) && !hasMIGDeviceInUse(h, uuid, devicesInUseHere())
				})
				if len(due) > 0 {
					d.cfg.Log.WithField("gpus", due).Info("partitioning GPUs: no GPU is offered until it is done")
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

// hasMIGDeviceInUse reports whether any container has a MIG device of the GPU, or a share of
// one.
func hasMIGDeviceInUse(h gpu.Host, uuid string, held map[string]share.DeviceUse) bool {
	for _, d := range h.Devices {
		if d.MIG != nil && d.MIG.Parent == uuid && held[d.UUID] != (share.DeviceUse{}) {
			return true
		}
	}
	return false
}

// checkNotStock returns an error if a GPU that may be partitioned has MIG devices in the
// agent's flags, where they are only counted.
func checkNotStock(partitioner *mig.Partitioner, stockDevices []gpu.Device) error {
	for _, d := range stockDevices {
		if d.MIG != nil && partitioner.CanPartition(d.MIG.Parent) {
			return fmt.Errorf("GPU %s is in --mig and in --stock: a GPU that is counted in the agent's flags cannot be partitioned", d.MIG.Parent)
		}
	}
	return nil
}
