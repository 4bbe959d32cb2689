package daemon

import (
	"context"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/watch"
)

// volumeInterval is the time between two checks of the driver volume. A check reads the headers of
// the driver's libraries, its programs as far as their version, and no content of a complete volume.
const volumeInterval = 30 * time.Second

// keepDriverVolume makes the driver volume before the first container needs it, and checks
// periodically that it can still be made. While it cannot, no task could use the GPUs, so none is
// offered; simulated GPUs have no driver. It does not wait for a file system that hangs when ctx
// ends.
func (d *Daemon) keepDriverVolume(w *watch.Watcher, h gpu.Host) component {
	return func(ctx context.Context) error {
		go func() {
			tick := time.NewTicker(volumeInterval)
			defer tick.Stop()
			for reported := ""; ctx.Err() == nil; {
				path, err := d.cfg.DriverVolume(ctx)
				if ctx.Err() != nil {
					return
				}
				if now := describeVolume(path, err); now != reported {
					reported = now
					d.reportVolume(ctx, w, h, path, err)
				}
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		}()
		<-ctx.Done()
		return nil
	}
}

func describeVolume(path string, err error) string {
	if err != nil {
		return "no driver volume: " + err.Error()
	}
	return path
}

// reportVolume publishes a change of the driver volume.
func (d *Daemon) reportVolume(ctx context.Context, w *watch.Watcher, h gpu.Host, path string, err error) {
	d.updateStatus(func(s *Status) { s.VolumeError = err })
	withheld := ""
	if err != nil && !h.Simulated {
		withheld = describeVolume(path, err)
	}
	w.SetNoDriver(withheld)
	switch {
	case err == nil:
		d.cfg.Log.WithField("path", path).Info("driver volume is ready")
		d.repairVolume(ctx)
	case withheld == "":
		d.cfg.Log.WithError(err).Warn("no driver volume: images that ask for the driver cannot be launched")
	default:
		d.cfg.Log.WithError(err).Warn("no driver volume: no GPU is offered until there is one")
	}
}

// repairVolume reads every byte of the volume, which takes longer than making it. Containers
// may start meanwhile: the files exist and have the right size.
func (d *Daemon) repairVolume(ctx context.Context) {
	if d.cfg.RepairVolume == nil {
		return
	}
	damage, err := d.cfg.RepairVolume(ctx)
	log := d.cfg.Log.WithField("damage", damage)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log.WithError(err).Error("driver volume may be damaged")
	case len(damage) > 0:
		log.Warn("driver volume was damaged and is repaired")
	}
}
