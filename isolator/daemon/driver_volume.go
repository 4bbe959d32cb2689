package daemon

import "context"

// makeDriverVolume makes the driver volume before the first container needs it. It does not
// wait for a file system that hangs when ctx ends.
func (d *Daemon) makeDriverVolume(ctx context.Context) error {
	go func() {
		path, err := d.cfg.DriverVolume(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			d.cfg.Log.WithError(err).Warn("no driver volume: images that ask for the driver cannot be launched")
			d.updateStatus(func(s *Status) { s.VolumeError = err })
		default:
			d.cfg.Log.WithField("path", path).Info("driver volume is ready")
			d.updateStatus(func(s *Status) { s.VolumeError = nil })
			d.repairVolume(ctx)
		}
	}()
	<-ctx.Done()
	return nil
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
