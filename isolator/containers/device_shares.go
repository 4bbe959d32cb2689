package containers

import (
	"context"
	"fmt"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/share"
)

// limiterTimeout bounds what a limiter may take to forget a container.
const limiterTimeout = 10 * time.Second

// DeviceShares are those that the container has, its own or its ancestor's. The error
// is *Unknown for one that is not known.
func (c *Manager) DeviceShares(container string) ([]gpu.DeviceShare, error) {
	if err := CheckID(container); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isKnown(container) {
		return nil, &UnknownContainerError{container}
	}
	_, parts := c.allocations.EffectiveShares(container)
	return parts, nil
}

// Share is what the processes of a container need so that they are held to its
// parts; the zero Setup where it has none. The error is *Unknown for a
// container that is not known, and else says why no limit can be had.
func (c *Manager) Share(ctx context.Context, container string) (ContainerShare, error) {
	if err := CheckID(container); err != nil {
		return ContainerShare{}, err
	}
	defer c.lockRoot(container)()
	c.mu.Lock()
	known := c.isKnown(container)
	owner, parts := c.allocations.EffectiveShares(container)
	c.mu.Unlock()
	if !known {
		return ContainerShare{}, &UnknownContainerError{container}
	}
	setup, err := c.admitShares(ctx, owner, parts)
	return NewContainerShare(c.cfg.Limiter.Method(), parts, setup), err
}

// NewContainerShare puts together how a container's parts are held.
func NewContainerShare(m gpu.EnforcementMethod, parts []gpu.DeviceShare, s share.LimitSetup) ContainerShare {
	answer := ContainerShare{Method: m, Shares: parts, Mounts: s.Mounts, Environment: s.Environment}
	if answer.Shares == nil {
		answer.Shares = []gpu.DeviceShare{}
	}
	if answer.Mounts == nil {
		answer.Mounts = []BindMount{}
	}
	if answer.Environment == nil {
		answer.Environment = map[string]string{}
	}
	if m == gpu.NotEnforced && len(parts) > 0 {
		answer.Warning = share.UnlimitedWarning
	}
	return answer
}

// DeviceUses tells in which form containers hold devices.
func (c *Manager) DeviceUses() map[string]share.DeviceUse {
	c.mu.Lock()
	defer c.mu.Unlock()
	uses := map[string]share.DeviceUse{}
	for _, h := range c.allocations.ListAll() {
		for _, d := range append(h.Named, h.Stock...) {
			uses[d] = share.DeviceUse{Whole: true, Shared: uses[d].Shared}
		}
		for _, p := range h.Shares {
			uses[p.UUID] = share.DeviceUse{Whole: uses[p.UUID].Whole, Shared: true}
		}
	}
	return uses
}

// admitShares has those parts of a container held to.
func (c *Manager) admitShares(ctx context.Context, container string, parts []gpu.DeviceShare) (share.LimitSetup, error) {
	if len(parts) == 0 {
		return share.LimitSetup{}, nil
	}
	for _, p := range parts {
		if p.MemMiB == 0 {
			return share.LimitSetup{}, &allocation.RejectedError{Why: fmt.Sprintf("how much container %s has of device %s is not known: it was found again from its cgroup, and holds its part until it ends", container, p.UUID)}
		}
	}
	return share.LimitContainer(ctx, c.cfg.Limiter, c.cfg.Log, container, parts)
}

// readmitAll has the containers of an earlier daemon held to their parts
// still. One for which that fails runs on: ending it helps nobody.
func (c *Manager) readmitAll() {
	for _, h := range c.allocations.ListAll() {
		if _, err := c.admitShares(context.Background(), h.Container, h.Shares); err != nil {
			c.cfg.Log.WithError(err).WithField("container", h.Container).Error("container runs on and may not be held to its part")
		}
	}
}

// changeLimit changes what a running container is held to. One whose parts are all
// gone is dismissed once its devices are closed to it.
func (c *Manager) changeLimit(container string, parts []gpu.DeviceShare) error {
	ctx, cancel := context.WithTimeout(context.Background(), limiterTimeout)
	defer cancel()
	_, err := c.admitShares(ctx, container, parts)
	return err
}

// releaseLimits has the limiter forget containers. What it cannot let go of is no
// reason to keep their devices.
func (c *Manager) releaseLimits(ids []string) {
	ctx, cancel := context.WithTimeout(context.Background(), limiterTimeout)
	defer cancel()
	for _, id := range ids {
		if err := c.cfg.Limiter.ReleaseContainer(ctx, id); err != nil {
			c.cfg.Log.WithError(err).WithField("container", id).Warn("limit of a container that is gone stays behind")
		}
	}
}
