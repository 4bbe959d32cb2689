package containers

import (
	"context"
	"fmt"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/share"
)

// limiterTimeout bounds how long a limiter may take to change or to release a limit.
const limiterTimeout = 10 * time.Second

// DeviceShares returns the container's shares of devices, its own or those that it inherits.
// The error is an *UnknownContainerError if the container is not known.
func (m *Manager) DeviceShares(container string) ([]gpu.DeviceShare, error) {
	if err := CheckID(container); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isKnown(container) {
		return nil, &UnknownContainerError{container}
	}
	_, shares := m.allocations.EffectiveShares(container)
	return shares, nil
}

// Share has the container's shares enforced, and returns what its processes need for that. The
// error is an *UnknownContainerError if the container is not known, and else says why there is
// no limit.
func (m *Manager) Share(ctx context.Context, container string) (ContainerShare, error) {
	if err := CheckID(container); err != nil {
		return ContainerShare{}, err
	}
	defer m.lockRoot(container)()
	m.mu.Lock()
	known := m.isKnown(container)
	owner, shares := m.allocations.EffectiveShares(container)
	m.mu.Unlock()
	if !known {
		return ContainerShare{}, &UnknownContainerError{container}
	}
	setup, err := m.admitShares(ctx, owner, shares)
	return NewContainerShare(m.cfg.Limiter.Method(), shares, setup), err
}

// NewContainerShare combines a container's shares with the limiter's setup for them.
func NewContainerShare(m gpu.EnforcementMethod, shares []gpu.DeviceShare, s share.LimitSetup) ContainerShare {
	answer := ContainerShare{Method: m, Shares: shares, Mounts: s.Mounts, Environment: s.Environment}
	if answer.Shares == nil {
		answer.Shares = []gpu.DeviceShare{}
	}
	if answer.Mounts == nil {
		answer.Mounts = []BindMount{}
	}
	if answer.Environment == nil {
		answer.Environment = map[string]string{}
	}
	if m == gpu.NotEnforced && len(shares) > len(s.WholeDevices) {
		answer.Warning = share.UnlimitedWarning
	}
	return answer
}

// DeviceUses returns, for each device that is held, whether containers hold it whole or shares
// of it.
func (m *Manager) DeviceUses() map[string]share.DeviceUse {
	m.mu.Lock()
	defer m.mu.Unlock()
	uses := map[string]share.DeviceUse{}
	for _, h := range m.allocations.ListAll() {
		for _, d := range append(h.Named, h.Stock...) {
			uses[d] = share.DeviceUse{Whole: true, Shared: uses[d].Shared}
		}
		for _, p := range h.Shares {
			uses[p.UUID] = share.DeviceUse{Whole: uses[p.UUID].Whole, Shared: true}
		}
	}
	return uses
}

// admitShares has the limiter enforce the shares of a container.
func (m *Manager) admitShares(ctx context.Context, container string, shares []gpu.DeviceShare) (share.LimitSetup, error) {
	if len(shares) == 0 {
		return share.LimitSetup{}, nil
	}
	for _, p := range shares {
		if p.MemMiB == 0 {
			return share.LimitSetup{}, &allocation.RejectedError{
				Why: fmt.Sprintf("the size of container %s's share of device %s is not known: "+
					"the container was restored from its cgroup, and keeps its share until it ends",
					container, p.UUID),
			}
		}
	}
	return share.LimitContainer(ctx, m.cfg.Limiter, m.cfg.Log, container, shares)
}

// readmitAll has the limiter enforce the shares of containers that an earlier daemon admitted.
// If that fails for one, it keeps running: ending it would not help its owner.
func (m *Manager) readmitAll() {
	for _, h := range m.allocations.ListAll() {
		if _, err := m.admitShares(context.Background(), h.Container, h.Shares); err != nil {
			m.cfg.Log.WithError(err).WithField("container", h.Container).Error("container keeps running, but its share may not be enforced")
		}
	}
}

// changeLimit changes the shares of a container that runs. Without shares it does nothing: the
// caller releases the limit once the kernel denies the devices.
func (m *Manager) changeLimit(container string, shares []gpu.DeviceShare) error {
	ctx, cancel := context.WithTimeout(context.Background(), limiterTimeout)
	defer cancel()
	_, err := m.admitShares(ctx, container, shares)
	return err
}

// releaseLimits has the limiter forget containers. A limit that cannot be released does not
// keep their devices allocated.
func (m *Manager) releaseLimits(ids []string) {
	ctx, cancel := context.WithTimeout(context.Background(), limiterTimeout)
	defer cancel()
	for _, id := range ids {
		if err := m.cfg.Limiter.ReleaseContainer(ctx, id); err != nil {
			m.cfg.Log.WithError(err).WithField("container", id).Warn("cannot release the limit of an ended container")
		}
	}
}
