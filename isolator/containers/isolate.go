package containers

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"mesos-gpu/isolator/allocation"
)

// Isolate confines the cgroup of a prepared container to its devices and moves
// the container's first process there. A nested container that inherits its
// devices and has no cgroup of its own needs neither. The error is an
// *UnknownContainerError if the container was not prepared.
func (m *Manager) Isolate(container string, pid int) error {
	if err := CheckID(container); err != nil {
		return err
	}
	if pid <= 0 {
		return &InvalidContainerError{fmt.Sprintf("isolate container %s: pid %d: must be greater than 0", container, pid)}
	}
	wrap := func(err error) error { return fmt.Errorf("isolate container %s: %w", container, err) }
	// 1. Find the allocation that Prepare recorded.
	defer m.lockRoot(container)()
	cgroup := m.cgroupPath(container)
	m.mu.Lock()
	current, known := m.allocations.Get(container)
	info := m.infos[container]
	grants := append(m.intermediateCgroups(container), cgroupGrant{cgroup: cgroup, devices: m.allocations.EffectiveDevices(container)})
	m.mu.Unlock()
	if !known {
		return &UnknownContainerError{container}
	}
	if current.Inherits {
		if _, err := m.cfg.Kernel.DeviceRules(cgroup); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	// 2. Record that the container has a cgroup of its own, before the kernel
	// allows it any device: Cleanup closes only cgroups that are recorded.
	if !info.Isolated {
		info.Isolated = true
		if err := m.records.writeRecord(containerRecord{Allocation: current, Info: info}); err != nil {
			return wrap(err)
		}
		m.mu.Lock()
		m.infos[container] = info
		m.mu.Unlock()
	}
	// 3. Have the kernel allow the cgroup the container's devices and no others.
	if err := m.applyGrants(grants); err != nil {
		return wrap(err)
	}
	if err := m.cfg.Kernel.MoveProcess(cgroup, pid); err != nil {
		return wrap(err)
	}
	return nil
}

// cgroupGrant is the set of devices that the kernel must allow a cgroup.
type cgroupGrant struct {
	cgroup  string
	devices []string
	// intermediate marks a cgroup between a container's and one nested in it,
	// which belongs to no container alone. With cgroup version 1 it starts with
	// its parent's devices and does not follow when the parent gets more.
	intermediate bool
}

// applyGrants has the kernel allow each cgroup its devices, in order. It leaves
// out devices that the host has lost, and intermediate cgroups that do not
// exist yet.
func (m *Manager) applyGrants(grants []cgroupGrant) error {
	for _, g := range grants {
		devices := m.existingDevices(g.devices)
		if g.intermediate {
			allowed, err := m.cfg.Kernel.AllowedDevices(g.cgroup)
			if err != nil || allocation.SameDevices(allowed, devices) {
				continue
			}
		}
		if err := m.cfg.Kernel.ConfineToDevices(g.cgroup, devices); err != nil {
			return err
		}
	}
	return nil
}

// cgroupGrants returns the grants of the container, and of the containers
// nested in it, that have cgroups of their own, parents first. The caller
// holds mu.
func (m *Manager) cgroupGrants(container string) []cgroupGrant {
	ids := []string{container}
	for _, a := range m.allocations.ListNested(container) {
		ids = append(ids, a.Container)
	}
	var grants []cgroupGrant
	for _, id := range ids {
		if m.infos[id].Isolated {
			grants = append(grants, m.intermediateCgroups(id)...)
			grants = append(grants, cgroupGrant{cgroup: m.cgroupPath(id), devices: m.allocations.EffectiveDevices(id)})
		}
	}
	return grants
}

// intermediateCgroups returns the grants of the cgroups between the outermost
// container's and a nested container's, outermost first. The caller holds mu.
func (m *Manager) intermediateCgroups(container string) []cgroupGrant {
	var grants []cgroupGrant
	for i, r := range container {
		if r != '.' {
			continue
		}
		ancestor := container[:i]
		devices := m.allocations.EffectiveDevices(ancestor)
		if allocation.ParentID(ancestor) != "" && !m.infos[ancestor].Isolated {
			grants = append(grants, cgroupGrant{m.cgroupPath(ancestor), devices, true})
		}
		grants = append(grants, cgroupGrant{path.Join(m.cgroupPath(ancestor), nestedCgroupName), devices, true})
	}
	return grants
}

// nonNilList returns the list so that JSON shows an empty one as [].
func nonNilList(devices []string) []string {
	if devices == nil {
		return []string{}
	}
	return devices
}
