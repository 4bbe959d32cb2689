package containers

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/rules"
	"mesos-gpu/isolator/share"
)

// Prepare claims devices for a container and tells what it is launched with.
// Prepared again with the same resources it gets the same. The error is a
// *allocation.RejectedError or *Invalid where the launch is at fault.
func (c *Manager) Prepare(ctx context.Context, l LaunchRequest) (LaunchSetup, error) {
	if err := CheckID(l.Container); err != nil {
		return LaunchSetup{}, err
	}
	want, err := allocation.ParseRequest(l.Resources)
	if err != nil {
		return LaunchSetup{}, fmt.Errorf("prepare container %s: %w", l.Container, err)
	}
	// The driver's files come before the claim: what fails claims nothing. They
	// may take their time, and others wait for the container's turn.
	mounts, err := c.driverMounts(ctx, l, !want.IsEmpty() || c.inheritsDevices(l.Container))
	if err != nil {
		return LaunchSetup{}, fmt.Errorf("prepare container %s: %w", l.Container, err)
	}
	defer c.lockRoot(l.Container)()
	claimed, err := c.claimDevices(ctx, l, want)
	if err != nil {
		return LaunchSetup{}, fmt.Errorf("prepare container %s: %w", l.Container, err)
	}
	env := buildEnvironment(claimed.devices, mounts, l.Image.Environment)
	maps.Copy(env, claimed.limiterSetup.Environment)
	return LaunchSetup{Devices: nonNilList(claimed.devices), Nodes: nodesWithPaths(claimed.nodes), Mounts: append(mounts, claimed.limiterSetup.Mounts...), Environment: env}, nil
}

// grantedResources is what a container was granted.
type grantedResources struct {
	devices      []string
	nodes        []rules.DeviceNode
	limiterSetup share.LimitSetup
}

func (c *Manager) inheritsDevices(container string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.allocations.EffectiveDevices(allocation.ParentID(container))) > 0
}

// claimDevices enters the container in the books and its file.
func (c *Manager) claimDevices(ctx context.Context, l LaunchRequest, want allocation.DeviceRequest) (got grantedResources, err error) {
	var change claimChange
	for again := true; ; again = false {
		change, got.devices, err = c.assignDevices(l, want)
		if refused := (*allocation.RejectedError)(nil); !again || !errors.As(err, &refused) {
			break
		}
		// What is in the way may be a container whose end nobody told.
		if err := c.releaseEnded(); err != nil {
			return grantedResources{}, err
		}
	}
	if err != nil {
		return grantedResources{}, err
	}
	got.devices = c.existingDevices(got.devices)
	if err = c.checkImage(l, got.devices); err == nil {
		got.nodes, err = c.cfg.Kernel.DeviceNodes(got.devices)
	}
	if err == nil {
		got.limiterSetup, err = c.admitToLimiter(ctx, l, change.after)
	}
	if err == nil {
		err = c.saveRecords(change.after...)
	}
	if err != nil {
		c.rollBackClaim(change)
		return grantedResources{}, err
	}
	c.setAllocations(change.after)
	return got, nil
}

// admitToLimiter has a container that has those holdings, or else is in the books, held
// to its parts. One without a file system of its own gets no mounts: an
// executor does not need them, and sees to its task's; a task that does is
// refused.
func (c *Manager) admitToLimiter(ctx context.Context, l LaunchRequest, after []allocation.Allocation) (share.LimitSetup, error) {
	c.mu.Lock()
	owner, parts := c.allocations.EffectiveShares(l.Container)
	c.mu.Unlock()
	if len(after) > 0 && !after[0].Inherits {
		parts = after[0].Shares
	}
	setup, err := c.admitShares(ctx, owner, parts)
	if err != nil || l.Rootfs {
		return setup, err
	}
	if setup.OwnRootfs && (l.Task != "" || allocation.ParentID(l.Container) != "") {
		return share.LimitSetup{}, &allocation.RejectedError{Why: fmt.Sprintf("it has part of a GPU and no image, and %s holds processes only in a file system of their own: give the task an image, or run this agent with another --share-limit", c.cfg.Limiter.Method())}
	}
	setup.Mounts = nil
	return setup, nil
}

// claimChange is what holdings and facts were and are; a container that is new has
// no holding before.
type claimChange struct {
	container     string
	before, after []allocation.Allocation
	infoBefore    containerInfo
}

// rollBackClaim takes a change of the books back.
func (c *Manager) rollBackClaim(ch claimChange) {
	if len(ch.before) == 0 {
		c.releaseLimits([]string{ch.container})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(ch.before) == 0 {
		c.allocations.ReleaseContainer(ch.container)
		delete(c.infos, ch.container)
		return
	}
	c.allocations.SetAllocations(ch.before...)
	c.infos[ch.container] = ch.infoBefore
}

func (c *Manager) assignDevices(l LaunchRequest, want allocation.DeviceRequest) (ch claimChange, devices []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := l.Container
	now, known := c.allocations.Get(id)
	ch = claimChange{container: id, infoBefore: c.infos[id]}
	f := containerInfo{Framework: l.Framework, Executor: l.Executor, Task: l.Task, Job: l.Job, Isolated: ch.infoBefore.Isolated}
	same := known && (now.MatchesRequest(want) || now.Inherits && want.IsEmpty())
	if known && !same && (f.Isolated || len(c.allocations.ListNested(id)) > 0) {
		return ch, nil, &allocation.RejectedError{Why: fmt.Sprintf("it runs already, with %d GPUs and not the %d asked for: update it instead",
			len(now.Devices()), want.Count())}
	}
	if ch.after, err = c.allocations.AssignDevices(id, want, c.cfg.IsGrantable); err != nil {
		return ch, nil, err
	}
	ch.before = c.currentAllocations(ch.after)
	if !f.Isolated { // one that runs goes on without what the host has lost
		if _, err := c.cfg.Kernel.DeviceNodes(ch.after[0].Devices()); err != nil {
			return ch, nil, &allocation.RejectedError{Why: err.Error()}
		}
	}
	c.allocations.SetAllocations(ch.after...)
	devices = c.allocations.EffectiveDevices(id)
	c.allocations.SetAllocations(mergeAllocations(ch.before, ch.after)...) // until its file is written
	if same && f == ch.infoBefore {
		ch.after = nil // nothing to write
	}
	c.infos[id] = f
	return ch, devices, nil
}

// currentAllocations is what the books have of the containers of those holdings. The
// caller holds mu.
func (c *Manager) currentAllocations(holdings []allocation.Allocation) []allocation.Allocation {
	var now []allocation.Allocation
	for _, h := range holdings {
		if n, ok := c.allocations.Get(h.Container); ok {
			now = append(now, n)
		}
	}
	return now
}
