package daemon

import (
	"context"
	"time"

	"mesos-gpu/isolator/containers"
)

// orphanInterval is how often containers without an executor are looked for where
// no module tells of the end of one.
const orphanInterval = time.Minute

// managedContainers are the containers, as the API's calls see them.
type managedContainers struct {
	*containers.Manager
	discovered *discoveredContainers
	// denyByDefault makes sure that containers without GPUs are confined.
	denyByDefault func() error
	// ended has the daemon look for what an executor left.
	ended chan struct{}
}

// Recover implements socket.ContainerManager. The agent has restarted: its root
// cgroup may be another, without our program.
func (b managedContainers) Recover(alive []string) error {
	if err := b.denyByDefault(); err != nil {
		return err
	}
	return b.Manager.Recover(alive)
}

// Cleanup implements socket.ContainerManager.
func (b managedContainers) Cleanup(container string) error {
	err := b.Manager.Cleanup(container)
	select {
	case b.ended <- struct{}{}:
	default:
	}
	return err
}

// removeOrphans removes what executors left that were killed: at once, whenever a
// container has ended, and now and then.
func (d *Daemon) removeOrphans(ended <-chan struct{}) component {
	return func(ctx context.Context) error {
		tick := time.NewTicker(orphanInterval)
		defer tick.Stop()
		for {
			if err := d.cfg.RemoveOrphans(ctx); err != nil && ctx.Err() == nil {
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
