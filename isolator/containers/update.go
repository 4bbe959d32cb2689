package containers

import (
	"errors"
	"fmt"

	"mesos-gpu/isolator/allocation"
)

// Update changes the container's devices to those of its new resources and
// returns them. A failed call leaves the container with what it had. The error
// is an *UnknownContainerError, *InvalidContainerError or
// *allocation.RejectedError if the request is at fault.
func (m *Manager) Update(container string, resources []allocation.MesosResource) ([]string, error) {
	if err := CheckID(container); err != nil {
		return nil, err
	}
	wrap := func(err error) error { return fmt.Errorf("update container %s: %w", container, err) }
	// 1. Read the request.
	request, err := allocation.ParseRequest(resources)
	if err != nil {
		return nil, wrap(err)
	}
	// 2. Find the container, from its cgroup if its record is lost.
	defer m.lockRoot(container)()
	if err := m.restoreFromCgroup(container, true); err != nil {
		return nil, wrap(err)
	}
	m.mu.Lock()
	_, allocated := m.allocations.Get(container)
	known, devices := m.isKnown(container), m.allocations.EffectiveDevices(container)
	m.mu.Unlock()
	switch {
	case !allocated && request.IsEmpty():
		return nonNilList(devices), nil
	case !known:
		return nil, &UnknownContainerError{container}
	}
	// 3. Assign devices and reserve them.
	t, err := m.begin(container, request, nil)
	if err != nil {
		return nil, wrap(err)
	}
	// 4. Change limits, record and cgroups, or take all of it back.
	if err := t.apply(); err != nil {
		return nil, wrap(err)
	}
	return nonNilList(t.devices), nil
}

// apply carries the transaction out for a container that runs, and ends it.
func (t *transaction) apply() error {
	m := t.manager
	if !t.changed {
		return t.commit()
	}
	if err := m.changeLimit(t.container, t.after[0].Shares); err != nil {
		return errors.Join(err, t.rollBack())
	}
	// The record claims the new devices before the kernel allows them. Nested
	// containers only lose devices: their records claim enough.
	if err := t.saveRecords(t.reserved[0]); err != nil {
		return errors.Join(err, t.rollBack(), m.changeLimit(t.container, t.before[0].Shares))
	}
	if err := m.applyGrants(t.grantsAfter); err != nil {
		// The kernel may have applied a part of the new grants. If it refuses
		// the old grants too, both stay reserved.
		if refused := m.applyGrants(t.grantsBefore); refused != nil {
			return errors.Join(err, refused)
		}
		return errors.Join(err, t.rollBack(), m.changeLimit(t.container, t.before[0].Shares))
	}
	if len(t.after[0].Shares) == 0 && len(t.before[0].Shares) > 0 {
		m.releaseLimits([]string{t.container})
	}
	return t.commit()
}
