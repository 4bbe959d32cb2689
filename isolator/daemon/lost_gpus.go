package daemon

import (
	"context"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/inventory"
)

// maxRediscoverPause bounds the pause between two searches for lost GPUs.
const maxRediscoverPause = 5 * time.Minute

// rememberDevices saves the devices of the host, so that the next daemon knows those that are lost
// then.
func (d *Daemon) rememberDevices(h gpu.Host) {
	if h.Simulated {
		return
	}
	if err := inventory.SaveDevices(d.cfg.StateDir, h.WithLost().Devices); err != nil {
		d.cfg.Log.WithError(err).Warn("GPUs that are lost after a restart will not be reported")
	}
}

// findLostGPUs ends all components once a GPU that was lost when they started is described again: its
// description may have changed.
func (d *Daemon) findLostGPUs(hardware Hardware, again func()) component {
	return func(ctx context.Context) error {
		for pause := d.cfg.rediscoverPause; ; pause = min(2*pause, maxRediscoverPause) {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pause):
			}
			h, err := hardware.Rediscover()
			if err != nil {
				d.cfg.Log.WithError(err).Warn("lost GPUs not found")
				continue
			}
			if foundLost(hardware.Host, h) {
				d.cfg.Log.Info("a lost GPU is back: no GPU is offered until its devices are added")
				again()
				return nil
			}
		}
	}
}

// foundLost reports whether now has a device that before lacked.
func foundLost(before, now gpu.Host) bool {
	return len(now.WithDevices(before.Devices).Devices) < len(now.Devices)
}
