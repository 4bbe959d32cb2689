package containers

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
)

// Isolate confines a prepared container's cgroup and moves its first process
// there. A nested container that has no cgroup of its own shares its
// parent's: nothing is to do. The error is *Unknown for a container that was
// not prepared.
func (c *Manager) Isolate(container string, pid int) error {
	if err := CheckID(container); err != nil {
		return err
	}
	if pid <= 0 {
		return &InvalidContainerError{fmt.Sprintf("isolate container %s: process %d is none, want a number above 0", container, pid)}
	}
	defer c.lockRoot(container)()
	c.mu.Lock()
	h, known := c.allocations.Get(container)
	devices := c.allocations.EffectiveDevices(container)
	owner, parts := c.allocations.EffectiveShares(container)
	way := append(c.intermediateCgroups(container), cgroupGrant{cgroup: c.cgroupPath(container), devices: devices})
	c.mu.Unlock()
	if !known {
		return &UnknownContainerError{container}
	}
	group := c.cgroupPath(container)
	if h.Inherits {
		if _, err := c.cfg.Kernel.DeviceRules(group); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if err := c.markIsolated(h); err != nil {
		return fmt.Errorf("isolate container %s: %w", container, err)
	}
	if err := c.applyGrants(way); err != nil {
		return fmt.Errorf("isolate container %s: %w", container, err)
	}
	if err := c.cfg.Kernel.MoveProcess(group, pid); err != nil {
		return fmt.Errorf("isolate container %s: %w", container, err)
	}
	if c.cfg.Limiter.Method() != gpu.EnforcedByDriver {
		return nil
	}
	// What the driver limits is the cgroup, which was not there before.
	if err := c.changeLimit(owner, parts); err != nil {
		return fmt.Errorf("isolate container %s: %w", container, err)
	}
	return nil
}

// markIsolated comes before the kernel lets the container open anything: what
// is open is closed again only for one that is marked.
func (c *Manager) markIsolated(h allocation.Allocation) error {
	c.mu.Lock()
	f := c.infos[h.Container]
	c.mu.Unlock()
	if f.Isolated {
		return nil
	}
	f.Isolated = true
	if err := c.records.writeRecord(containerRecord{Allocation: h, Info: f}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.infos[h.Container] = f
	return nil
}

// Update makes the container's devices those of its new resources, and
// returns them. Where that cannot be done it keeps what it had. The error is
// *Unknown, *Invalid or *allocation.RejectedError where the call is at fault.
func (c *Manager) Update(container string, resources []allocation.MesosResource) ([]string, error) {
	if err := CheckID(container); err != nil {
		return nil, err
	}
	want, err := allocation.ParseRequest(resources)
	if err != nil {
		return nil, fmt.Errorf("update container %s: %w", container, err)
	}
	defer c.lockRoot(container)()
	if err := c.restoreFromCgroup(container, true); err != nil {
		return nil, fmt.Errorf("update container %s: %w", container, err)
	}
	c.mu.Lock()
	_, booked := c.allocations.Get(container)
	known, devices := c.isKnown(container), c.allocations.EffectiveDevices(container)
	c.mu.Unlock()
	switch {
	case !booked && want.IsEmpty():
		return nonNilList(devices), nil
	case !known:
		return nil, &UnknownContainerError{container}
	}
	if err := c.changeDevices(container, want); err != nil {
		return nil, fmt.Errorf("update container %s: %w", container, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return nonNilList(c.allocations.EffectiveDevices(container)), nil
}

// nonNilList is a list for JSON: empty rather than absent.
func nonNilList(devices []string) []string {
	if devices == nil {
		return []string{}
	}
	return devices
}

// changeDevices claims what is new, has the kernel allow just what is wanted, and
// then gives back what is no longer. Wherever that stops, the books hold all
// that the kernel allows or a file claims: made again, the call goes on there.
func (c *Manager) changeDevices(container string, want allocation.DeviceRequest) error {
	u, err := c.planChange(container, want)
	if refused := (*allocation.RejectedError)(nil); errors.As(err, &refused) {
		if err := c.releaseEnded(); err != nil {
			return err
		}
		u, err = c.planChange(container, want)
	}
	if err != nil {
		return err
	}
	if !u.hasChanges() {
		return nil
	}
	// Nested ones lose devices only: their files claim enough.
	if err := c.changeLimit(container, u.after[0].Shares); err != nil {
		c.setAllocations(u.before)
		return err
	}
	if err := c.saveRecords(u.claimed[0]); err != nil {
		c.setAllocations(u.before)
		return errors.Join(err, c.changeLimit(container, u.before[0].Shares))
	}
	if err := c.applyGrants(u.to); err != nil {
		if back := c.applyGrants(u.from); back != nil {
			return errors.Join(err, back)
		}
		return errors.Join(err, c.commitAllocations(u.before), c.changeLimit(container, u.before[0].Shares))
	}
	if len(u.after[0].Shares) == 0 && len(u.before[0].Shares) > 0 {
		c.releaseLimits([]string{container})
	}
	return c.commitAllocations(u.after)
}

// commitAllocations has the books claim no less than the files do.
func (c *Manager) commitAllocations(holdings []allocation.Allocation) error {
	if err := c.saveRecords(holdings...); err != nil {
		return err
	}
	c.setAllocations(holdings)
	return nil
}

// deviceChange is one container's way, with those nested in it, from what they hold
// to what they will.
type deviceChange struct {
	before, claimed, after []allocation.Allocation
	from, to               []cgroupGrant
}

// cgroupGrant is what the kernel is to allow a cgroup.
type cgroupGrant struct {
	cgroup  string
	devices []string
	// intermediate marks a cgroup that no container has to itself: one above a
	// nested container's. In version 1 it begins with what its parent could
	// and does not grow with it.
	intermediate bool
}

func (u deviceChange) hasChanges() bool {
	return !slices.EqualFunc(u.before, u.after, func(a, b allocation.Allocation) bool {
		return slices.Equal(a.Named, b.Named) && slices.Equal(a.Stock, b.Stock) && slices.Equal(a.Shares, b.Shares)
	})
}

// planChange leaves the books with what is held before and after together, so that
// nobody else is given any of it.
func (c *Manager) planChange(container string, want allocation.DeviceRequest) (deviceChange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	after, err := c.allocations.AssignDevices(container, want, c.cfg.IsGrantable)
	if err != nil {
		return deviceChange{}, err
	}
	u := deviceChange{after: after, before: c.currentAllocations(after), from: c.cgroupGrants(container)}
	if len(u.before) < len(after) { // one that shares an ancestor's cgroup, past Prepare
		u.before = slices.Insert(u.before, 0, allocation.Allocation{Container: container, Inherits: true})
	}
	c.allocations.SetAllocations(u.after...)
	u.to = c.cgroupGrants(container)
	isNew := slices.DeleteFunc(u.after[0].Devices(), func(d string) bool { return slices.Contains(u.before[0].Devices(), d) })
	if _, err := c.cfg.Kernel.DeviceNodes(isNew); err != nil {
		c.allocations.SetAllocations(u.before...)
		return deviceChange{}, &allocation.RejectedError{Why: err.Error()}
	}
	u.claimed = mergeAllocations(u.before, u.after)
	c.allocations.SetAllocations(u.claimed...)
	return u, nil
}

// mergeAllocations are the holdings after, each with what it held before.
func mergeAllocations(before, after []allocation.Allocation) []allocation.Allocation {
	all := slices.Clone(after)
	for i, h := range all {
		if j := slices.IndexFunc(before, func(b allocation.Allocation) bool { return b.Container == h.Container }); j >= 0 {
			all[i] = mergeAllocation(before[j], h)
		}
	}
	return all
}

// mergeAllocation holds all that either does.
func mergeAllocation(a, b allocation.Allocation) allocation.Allocation {
	u := b
	u.Named, u.Stock, u.Shares = slices.Clone(b.Named), slices.Clone(b.Stock), allocation.UnionShares(a.Shares, b.Shares)
	for _, d := range a.Named {
		if !slices.Contains(u.Devices(), d) {
			u.Named = append(u.Named, d)
		}
	}
	for _, d := range a.Stock {
		if !slices.Contains(u.Devices(), d) {
			u.Stock = append(u.Stock, d)
		}
	}
	return u
}

// cgroupGrants are those of the container and of the containers nested in it
// that have cgroups of their own, parents first. The caller holds mu.
func (c *Manager) cgroupGrants(container string) []cgroupGrant {
	ids := []string{container}
	for _, h := range c.allocations.ListNested(container) {
		ids = append(ids, h.Container)
	}
	var list []cgroupGrant
	for _, id := range ids {
		if c.infos[id].Isolated {
			list = append(list, c.intermediateCgroups(id)...)
			list = append(list, cgroupGrant{cgroup: c.cgroupPath(id), devices: c.allocations.EffectiveDevices(id)})
		}
	}
	return list
}

// intermediateCgroups are the cgroups between the outermost container's and a nested one's,
// outermost first. The caller holds mu.
func (c *Manager) intermediateCgroups(container string) []cgroupGrant {
	var list []cgroupGrant
	for i, r := range container {
		if r != '.' {
			continue
		}
		ancestor := container[:i]
		devices := c.allocations.EffectiveDevices(ancestor)
		if allocation.ParentID(ancestor) != "" && !c.infos[ancestor].Isolated {
			list = append(list, cgroupGrant{c.cgroupPath(ancestor), devices, true})
		}
		list = append(list, cgroupGrant{path.Join(c.cgroupPath(ancestor), nestedCgroupName), devices, true})
	}
	return list
}

func (c *Manager) applyGrants(list []cgroupGrant) error {
	for _, step := range list {
		devices := c.existingDevices(step.devices)
		if step.intermediate {
			held, err := c.cfg.Kernel.AllowedDevices(step.cgroup)
			if err != nil || allocation.SameDevices(held, devices) {
				continue // it is still to be made, or is as it should
			}
		}
		if err := c.cfg.Kernel.ConfineToDevices(step.cgroup, devices); err != nil {
			return err
		}
	}
	return nil
}

func (c *Manager) setAllocations(holdings []allocation.Allocation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allocations.SetAllocations(holdings...)
}
