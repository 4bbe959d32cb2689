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

// slicePrefix begins the UUID of each MIG device.
const slicePrefix = "MIG-"

// cutEvery is how often a GPU that waits to be cut is looked at.
const cutEvery = 5 * time.Second

// cuts tells that the daemon may cut GPUs.
func (c Config) cuts() bool { return c.MIG != "" && c.MIG != mig.None || c.MIGLayout != "" }

// live runs all parts, again and again with the devices that there are after
// GPUs were cut.
func (d *Daemon) live(ctx context.Context, hardware Hardware, cutter *mig.Cutter) error {
	// Before the books are open none of what is there may end.
	idle := func(string) bool { return false }
	for {
		if d.cfg.cuts() {
			cutter.Apply(idle)
			h, err := hardware.Again()
			if err != nil {
				return fmt.Errorf("discover GPUs: %w", err)
			}
			hardware.Host = h
		}
		if d.cfg.Discovered != nil {
			d.cfg.Discovered(hardware.Host)
		}
		again := false
		parts, err := d.parts(ctx, hardware, cutter, func() { again = true })
		if err != nil {
			return err
		}
		if err := together(ctx, parts); err != nil || !again {
			return err
		}
		// The provider is gone, so that no launch that needs a slice can begin.
		held, err := d.inUse(ctx)
		h := hardware.Host
		idle = func(uuid string) bool { return err == nil && !slicesHeld(h, uuid, held) }
	}
}

// cutOnceIdle ends all parts once a GPU can be cut as was asked for; never at
// once, whatever came of the last cut.
func (d *Daemon) cutOnceIdle(h gpu.Host, cutter *mig.Cutter, booked func() map[string]share.Use, again func()) part {
	return func(ctx context.Context) error {
		tick := time.NewTicker(cutEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-cutter.Changed():
			case <-tick.C:
			}
			if cutter.Waiting() {
				held, err := d.inUse(ctx)
				due := cutter.Due(func(uuid string) bool {
					return err == nil && !slicesHeld(h, uuid, held) && !slicesHeld(h, uuid, booked())
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

func (d *Daemon) inUse(ctx context.Context) (map[string]share.Use, error) {
	return advertise.InUse(ctx, advertise.Config{
		AgentURL: d.cfg.AgentURL, StateDir: d.cfg.StateDir, Authorization: d.cfg.Authorization, TLS: d.cfg.TLS, Log: d.cfg.Log,
	})
}

// slicesHeld reports whether anybody has a slice of that GPU.
func slicesHeld(h gpu.Host, uuid string, held map[string]share.Use) bool {
	for _, d := range h.Devices {
		if d.MIG != nil && d.MIG.Parent == uuid && held[d.UUID] != (share.Use{}) {
			return true
		}
	}
	return false
}

// notStock is an error where a GPU may be cut whose slices stand, counted, in
// the agent's flags.
func notStock(cutter *mig.Cutter, aside []gpu.Device) error {
	for _, d := range aside {
		if d.MIG != nil && cutter.May(d.MIG.Parent) {
			return fmt.Errorf("GPU %s is among --mig and --stock: what is counted in the agent's flags cannot be cut", d.MIG.Parent)
		}
	}
	return nil
}
