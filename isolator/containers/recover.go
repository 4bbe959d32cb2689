package containers

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/rules"
)

// Cleanup releases a container and those nested in it. A container that is not known is no
// error.
func (m *Manager) Cleanup(container string) error {
	if err := CheckID(container); err != nil {
		return err
	}
	defer m.lockRoot(container)()
	return m.releaseContainer(container)
}

func (m *Manager) releaseContainer(container string) error {
	m.mu.Lock()
	ends := m.cgroupGrants(container)
	m.mu.Unlock()
	for _, e := range slices.Backward(ends) { // nested ones first
		if e.intermediate {
			continue // it is removed with the container's
		}
		if err := m.cfg.Kernel.ReleaseCgroup(e.cgroup); err != nil {
			return fmt.Errorf("clean up container %s: %w", container, err)
		}
	}
	if err := m.forgetContainer(container); err != nil {
		return fmt.Errorf("clean up container %s: %w", container, err)
	}
	return nil
}

// Recover keeps the containers that are alive, and those that the module did not prepare, and
// releases all others. A container that is
// alive and whose record is lost is restored from its cgroup.
func (m *Manager) Recover(alive []string) error {
	for _, id := range alive {
		if err := CheckID(id); err != nil {
			return err
		}
	}
	m.releaseOrphans(alive)
	if err := m.releaseEnded(); err != nil {
		return fmt.Errorf("recover containers: %w", err)
	}
	parentsFirst := slices.SortedFunc(slices.Values(alive), func(a, b string) int {
		return cmp.Compare(strings.Count(a, "."), strings.Count(b, "."))
	})
	for _, id := range parentsFirst {
		if err := m.recoverContainer(id); err != nil {
			return fmt.Errorf("recover containers: %w", err)
		}
	}
	return nil
}

// releaseOrphans releases the containers that are not alive. A container that cannot be
// released, because a process of it still runs, keeps its devices: failing the agent's recovery
// would not help.
func (m *Manager) releaseOrphans(alive []string) {
	m.scanLock.Lock()
	defer m.scanLock.Unlock()
	m.mu.Lock()
	orphans := m.allocations.FindOrphans(alive)
	m.mu.Unlock()
	for _, id := range orphans {
		if m.isClaimed(id) {
			continue // ReleaseClaim releases it once nothing of it is left
		}
		log := m.cfg.Log.WithField("container", id)
		if err := m.releaseContainer(id); err != nil {
			log.WithError(err).Warn("container has ended for the agent, but cannot be released: its devices stay allocated")
			m.mu.Lock()
			m.orphans[id] = true
			m.mu.Unlock()
			continue
		}
		log.Info("released a container that ended without a cleanup call")
	}
}

// RetryOrphans tries to release the containers that Recover could not release, and returns those
// that still hold devices.
func (m *Manager) RetryOrphans() []gpu.ContainerDevices {
	m.mu.Lock()
	orphans := slices.Sorted(maps.Keys(m.orphans))
	m.mu.Unlock()
	for _, id := range orphans {
		if err := m.Cleanup(id); err == nil {
			m.cfg.Log.WithField("container", id).Info("released a container whose last process has ended")
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []gpu.ContainerDevices
	for _, id := range orphans {
		if a, known := m.allocations.Get(id); known && m.orphans[id] && len(a.Devices()) > 0 {
			left = append(left, m.infos[id].describeHolder(id, a.Devices(), a.Shares))
		}
	}
	return left
}

func (m *Manager) recoverContainer(id string) error {
	defer m.lockRoot(id)()
	return m.restoreFromCgroup(id, false)
}

// releaseEnded releases containers whose cgroup, and with it all their processes, no longer
// exists. It skips containers that another call is working on.
func (m *Manager) releaseEnded() error {
	m.mu.Lock()
	all := m.allocations.ListAll()
	m.mu.Unlock()
	for _, h := range all {
		if err := m.releaseIfEnded(h.Container); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manager) releaseIfEnded(id string) error {
	unlock, ok := m.rootLocks.tryLock(allocation.RootID(id))
	if !ok {
		return nil
	}
	defer unlock()
	m.mu.Lock()
	isolated := m.infos[id].Isolated
	m.mu.Unlock()
	if !isolated {
		return nil // its cgroup does not exist yet
	}
	_, err := m.cfg.Kernel.DeviceRules(m.cgroupPath(id))
	if !errors.Is(err, fs.ErrNotExist) {
		return nil // other errors show up where they matter
	}
	m.cfg.Log.WithField("container", id).Info("container's cgroup no longer exists: its devices are released")
	return m.releaseContainer(id)
}

// scanCgroups restores the containers below a cgroup that hold devices. Their ids begin with
// prefix.
func (m *Manager) scanCgroups(cgroup, prefix string) error {
	names, err := m.cfg.Kernel.ListChildCgroups(cgroup)
	if err != nil {
		return fmt.Errorf("search cgroups for containers: %w", err)
	}
	for _, name := range names {
		id := prefix + name
		if strings.Contains(name, ".") || CheckID(id) != nil {
			continue
		}
		below := path.Join(cgroup, name)
		if held, err := m.cfg.Kernel.AllowedDevices(below); err == nil && len(held) > 0 {
			if err := m.restoreFromCgroup(id, false); err != nil {
				return err
			}
		}
		if err := m.scanCgroups(path.Join(below, nestedCgroupName), id+"."); err != nil {
			return err
		}
	}
	return nil
}

// restoreFromCgroup allocates to an unknown container what its cgroup allows, if it has a
// confined one. A container without devices is restored only if it runs: otherwise it may be
// one that is yet to be prepared.
func (m *Manager) restoreFromCgroup(id string, runs bool) error {
	m.mu.Lock()
	_, known := m.allocations.Get(id)
	m.mu.Unlock()
	if known {
		return nil
	}
	list, err := m.cfg.Kernel.DeviceRules(m.cgroupPath(id))
	// An unconfined container was launched without this daemon.
	if errors.Is(err, fs.ErrNotExist) || err == nil && rules.IsUnconfined(list) {
		return nil
	}
	if err != nil {
		return err
	}
	devices, err := m.cfg.Kernel.AllowedDevices(m.cgroupPath(id))
	if err != nil || len(devices) == 0 && !runs {
		return err
	}
	return m.restoreAllocation(id, devices)
}

func (m *Manager) restoreAllocation(id string, devices []string) error {
	log := m.cfg.Log.WithField("container", id)
	m.mu.Lock()
	h, err := m.allocations.RestoreAllocation(id, devices)
	if err == nil {
		m.allocations.SetAllocations(h)
		m.infos[id] = containerInfo{Isolated: true}
	}
	m.mu.Unlock()
	if err != nil {
		log.WithError(err).Error("container's cgroup allows devices of other containers: nothing is changed")
		return nil
	}
	log.WithField("gpus", devices).Info("container restored from its cgroup")
	return m.saveRecord(h)
}
