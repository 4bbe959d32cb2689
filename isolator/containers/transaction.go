package containers

import (
	"errors"
	"fmt"
	"slices"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
)

// transaction changes what one container, and the containers nested in it,
// hold. begin assigns devices and reserves them; commit makes the new
// allocations valid; rollBack restores the old ones. The caller holds the lock
// of the container's root and ends every transaction with one of the two.
//
// Between begin and the end the allocator contains the old and the new devices
// together, so that no other container is granted any of them. A process that
// dies in between leaves records that claim too much, never too little.
type transaction struct {
	manager    *Manager
	container  string
	infoBefore containerInfo
	// isNew is set if the container had no allocation of its own at begin.
	isNew bool

	// before contains the allocations at begin: the container's own, if it had
	// one, then those of nested containers that lose devices. For a container
	// that runs in its parent's cgroup, the first one inherits.
	before []allocation.Allocation
	// after contains the allocations that commit makes valid, in the same order.
	after []allocation.Allocation
	// reserved contains, for each allocation of after, the devices of both.
	reserved []allocation.Allocation
	// devices lists the devices that the container may open after commit: its own,
	// or the devices of the ancestor whose allocation it inherits. shares are its shares
	// of devices, and shareOwner is the container or ancestor that they belong to.
	devices    []string
	shareOwner string
	shares     []gpu.DeviceShare
	// grantsBefore has the kernel's present grants for the cgroups of the container
	// and of its nested containers, grantsAfter their grants after commit.
	grantsBefore, grantsAfter []cgroupGrant
	// changed is false if after and the container's info are as they were.
	changed bool
	// written are the containers whose records the transaction has replaced.
	written []string
}

// begin starts a transaction that gives the container what it requests. launch
// describes a container that Prepare launches; it is nil for one that runs. If
// the request is rejected, begin releases containers that have ended without a
// call of Cleanup and tries once more. The error is a *DeviceHeldError if other
// containers hold a device, and an *allocation.RejectedError if the request is
// at fault.
func (m *Manager) begin(container string, request allocation.DeviceRequest, launch *containerInfo) (*transaction, error) {
	t, err := m.assignDevices(container, request, launch)
	if rejected := (*allocation.RejectedError)(nil); !errors.As(err, &rejected) {
		return t, err
	}
	if err := m.releaseEnded(); err != nil {
		return nil, err
	}
	t, err = m.assignDevices(container, request, launch)
	return t, m.nameHolders(container, err)
}

// assignDevices returns a transaction with the devices of the request reserved.
// It does not wait: m.mu is held from the choice of devices until they are
// reserved.
func (m *Manager) assignDevices(container string, request allocation.DeviceRequest, launch *containerInfo) (*transaction, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &transaction{manager: m, container: container, infoBefore: m.infos[container]}
	info := t.infoBefore
	if launch != nil {
		info = *launch
		info.Isolated = t.infoBefore.Isolated
		if err := m.checkRelaunch(container, request); err != nil {
			return nil, err
		}
	}
	// Choose devices.
	var err error
	if t.after, err = m.allocations.AssignDevices(container, request, m.cfg.IsGrantable); err != nil {
		return nil, err
	}
	t.before = m.currentAllocations(t.after)
	_, known := m.allocations.Get(container)
	if t.isNew = !known; t.isNew && launch == nil { // it runs in its parent's cgroup
		t.before = slices.Insert(t.before, 0, allocation.Allocation{Container: container, Inherits: true})
	}
	// A container that runs keeps running without devices that the host has lost.
	needed := t.after[0].Devices()
	if launch == nil || info.Isolated {
		needed = t.addedDevices()
	}
	if _, err := m.cfg.Kernel.DeviceNodes(needed); err != nil {
		return nil, &allocation.RejectedError{Why: err.Error()}
	}
	// Find what the kernel allows now, and what it must allow after commit.
	t.grantsBefore = m.cgroupGrants(container)
	m.allocations.SetAllocations(t.after...)
	t.grantsAfter, t.devices = m.cgroupGrants(container), m.allocations.EffectiveDevices(container)
	t.shareOwner, t.shares = m.allocations.EffectiveShares(container)
	// Reserve the old and the new devices.
	t.reserved = mergeAllocations(t.before, t.after)
	m.allocations.SetAllocations(t.reserved...)
	m.infos[container] = info
	delete(m.orphans, container)
	t.changed = info != t.infoBefore || !slices.EqualFunc(t.before, t.after, holdSameDevices)
	return t, nil
}

// commit writes the records of the new allocations, then frees the devices that
// are no longer held. If it fails the old and the new devices stay reserved.
func (t *transaction) commit() error {
	if t.changed {
		if err := t.saveRecords(t.after...); err != nil {
			return err
		}
	}
	t.manager.mu.Lock()
	defer t.manager.mu.Unlock()
	t.manager.allocations.SetAllocations(t.after...)
	return nil
}

// rollBack restores the records and allocations at begin. It does not change
// cgroups. A container that Prepare was to launch for the first time is
// forgotten, and its limits are released. If a record cannot be restored, the
// old and the new devices stay reserved until the container is cleaned up.
func (t *transaction) rollBack() error {
	m := t.manager
	m.mu.Lock()
	m.infos[t.container] = t.infoBefore
	m.mu.Unlock()
	for _, id := range t.written {
		var err error
		if t.isNew && id == t.container {
			err = m.records.removeFile(recordFileName(id))
		} else {
			i := slices.IndexFunc(t.before, func(b allocation.Allocation) bool { return b.Container == id })
			err = m.saveRecord(t.before[i])
		}
		if err != nil {
			return err
		}
	}
	if len(t.before) == 0 {
		m.releaseLimits([]string{t.container})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.allocations.SetAllocations(t.before...)
	if t.isNew {
		m.allocations.RemoveAllocation(t.container)
		delete(m.infos, t.container)
	}
	return nil
}

// saveRecords writes the records of those allocations, for rollBack to restore.
func (t *transaction) saveRecords(list ...allocation.Allocation) error {
	for _, a := range list {
		if err := t.manager.saveRecord(a); err != nil {
			return err
		}
		t.written = append(t.written, a.Container)
	}
	return nil
}

// checkRelaunch rejects a second launch of a container that runs, or in which
// containers are nested, with other devices than it holds. The caller holds mu.
func (m *Manager) checkRelaunch(container string, request allocation.DeviceRequest) error {
	current, known := m.allocations.Get(container)
	if !known || current.MatchesRequest(request) || current.Inherits && request.IsEmpty() {
		return nil
	}
	if !m.infos[container].Isolated && len(m.allocations.ListNested(container)) == 0 {
		return nil
	}
	return &allocation.RejectedError{Why: fmt.Sprintf("it runs already, with %d GPUs and not the %d requested: update it instead",
		len(current.Devices()), request.Count())}
}

// currentAllocations returns the current allocations of the containers that
// list names, without those that have none. The caller holds mu.
func (m *Manager) currentAllocations(list []allocation.Allocation) []allocation.Allocation {
	var current []allocation.Allocation
	for _, a := range list {
		if c, ok := m.allocations.Get(a.Container); ok {
			current = append(current, c)
		}
	}
	return current
}

// addedDevices returns the container's devices that it did not hold before.
func (t *transaction) addedDevices() []string {
	return slices.DeleteFunc(t.after[0].Devices(), func(d string) bool {
		return len(t.before) > 0 && slices.Contains(t.before[0].Devices(), d)
	})
}

func holdSameDevices(a, b allocation.Allocation) bool {
	return slices.Equal(a.Named, b.Named) && slices.Equal(a.Stock, b.Stock) && slices.Equal(a.Shares, b.Shares)
}

// mergeAllocations returns the allocations of after, each with the devices that
// its container had before.
func mergeAllocations(before, after []allocation.Allocation) []allocation.Allocation {
	all := slices.Clone(after)
	for i, a := range all {
		if j := slices.IndexFunc(before, func(b allocation.Allocation) bool { return b.Container == a.Container }); j >= 0 {
			all[i] = mergeAllocation(before[j], a)
		}
	}
	return all
}

// mergeAllocation returns the allocation after with all that before contains.
func mergeAllocation(before, after allocation.Allocation) allocation.Allocation {
	merged := after
	merged.Named, merged.Stock = slices.Clone(after.Named), slices.Clone(after.Stock)
	merged.Shares = allocation.UnionShares(before.Shares, after.Shares)
	for _, d := range before.Named {
		if !slices.Contains(merged.Devices(), d) {
			merged.Named = append(merged.Named, d)
		}
	}
	for _, d := range before.Stock {
		if !slices.Contains(merged.Devices(), d) {
			merged.Stock = append(merged.Stock, d)
		}
	}
	return merged
}
