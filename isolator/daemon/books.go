package daemon

import (
	"context"
	"time"

	"mesos-gpu/isolator/containers"
)

// sweepEvery is how often containers without an executor are looked for where
// no module tells of the end of one.
const sweepEvery = time.Minute

// books are the containers, as the API's calls see them.
type books struct {
	*containers.Containers
	guests *guests
	// confine makes sure that containers without GPUs are confined.
	confine func() error
	// ended has the daemon look for what an executor left.
	ended chan struct{}
}

// Recover implements socket.Containers. The agent has restarted: its root
// cgroup may be another, without our program.
func (b books) Recover(alive []string) error {
	if err := b.confine(); err != nil {
		return err
	}
	return b.Containers.Recover(alive)
}

// Cleanup implements socket.Containers.
func (b books) Cleanup(container string) error {
	err := b.Containers.Cleanup(container)
	select {
	case b.ended <- struct{}{}:
	default:
	}
	return err
}

// sweep removes what executors left that were killed: at once, whenever a
// container has ended, and now and then.
func (d *Daemon) sweep(ended <-chan struct{}) part {
	return func(ctx context.Context) error {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			if err := d.cfg.Sweep(ctx); err != nil && ctx.Err() == nil {
				d.cfg.Log.WithError(err).Warn("containers whose executor was killed hold their GPUs still")
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ended:
			case <-tick.C:
			}
		}
	}
}
