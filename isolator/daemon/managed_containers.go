package daemon

import (
	"context"
	"time"

	"mesos-gpu/isolator/containers"
)

// orphanInterval is how often containers without an executor are looked for if no module
// reports the end of containers.
const orphanInterval = time.Minute

// managedContainers implements containerAPI for the containers that this daemon manages.
type managedContainers struct {
	*containers.Manager
	discovered *discoveredContainers
	// denyByDefault denies GPUs to containers that are not isolated.
	denyByDefault func() error
	// ended triggers a search for what an executor left behind.
	ended chan struct{}
}

// Recover recovers the containers after a restart of the agent. The agent may have created its
// root cgroup again, without this daemon's program, so the default is applied first.
func (c managedContainers) Recover(alive []string) error {
	if err := c.denyByDefault(); err != nil {
		return err
	}
	c.ignoreReleased(func(string) bool { return true }) // those that are kept are managed, which suffices
	return c.Manager.Recover(alive)
}

// ignoreReleased keeps containers that are about to be released from being discovered, and from
// being adopted as containers that did not claim their devices.
func (c managedContainers) ignoreReleased(ends func(container string) bool) {
	for _, h := range c.Manager.Holders() {
		if ends(h.Container) {
			c.discovered.ignoreReleased(h.Container)
		}
	}
}

// Cleanup releases the container and has orphans searched for.
func (c managedContainers) Cleanup(container string) error {
	c.ignoreReleased(func(id string) bool { return id == container })
	err := c.Manager.Cleanup(container)
	select {
	case c.ended <- struct{}{}:
	default:
	}
	return err
}

// removeOrphans removes what killed executors left behind: after the end of each container, and
// periodically.
func (d *Daemon) removeOrphans(ended <-chan struct{}) component {
	return func(ctx context.Context) error {
		tick := time.NewTicker(orphanInterval)
		defer tick.Stop()
		for {
			if err := d.cfg.RemoveOrphans(ctx); err != nil && ctx.Err() == nil {
				d.cfg.Log.WithError(err).Warn("cannot remove containers whose executor was killed: they keep their GPUs")
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
