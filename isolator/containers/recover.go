package containers

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/rules"
)

// Cleanup lets go of a container and those nested in it. One that is not known
// is cleaned up already.
func (c *Manager) Cleanup(container string) error {
	if err := CheckID(container); err != nil {
		return err
	}
	defer c.lockRoot(container)()
	return c.releaseContainer(container)
}

func (c *Manager) releaseContainer(container string) error {
	c.mu.Lock()
	ends := c.cgroupGrants(container)
	c.mu.Unlock()
	for _, e := range slices.Backward(ends) { // nested ones first
		if e.intermediate {
			continue // it goes with the container's
		}
		if err := c.cfg.Kernel.ReleaseCgroup(e.cgroup); err != nil {
			return fmt.Errorf("clean up container %s: %w", container, err)
		}
	}
	if err := c.forgetContainer(container); err != nil {
		return fmt.Errorf("clean up container %s: %w", container, err)
	}
	return nil
}

// Recover keeps the containers that are alive and lets go of all others; those
// alive whose files are lost are found again from their cgroups.
func (c *Manager) Recover(alive []string) error {
	for _, id := range alive {
		if err := CheckID(id); err != nil {
			return err
		}
	}
	c.releaseOrphans(alive)
	if err := c.releaseEnded(); err != nil {
		return fmt.Errorf("recover containers: %w", err)
	}
	parentsFirst := slices.SortedFunc(slices.Values(alive), func(a, b string) int {
		return cmp.Compare(strings.Count(a, "."), strings.Count(b, "."))
	})
	for _, id := range parentsFirst {
		if err := c.recoverContainer(id); err != nil {
			return fmt.Errorf("recover containers: %w", err)
		}
	}
	return nil
}

// releaseOrphans lets go of those that are not alive. One that cannot be, for
// a process of it is left, keeps its devices: an agent that cannot recover
// for that would help nobody.
func (c *Manager) releaseOrphans(alive []string) {
	c.scanLock.Lock()
	defer c.scanLock.Unlock()
	c.mu.Lock()
	strangers := c.allocations.FindOrphans(alive)
	c.mu.Unlock()
	for _, id := range strangers {
		log := c.cfg.Log.WithField("container", id)
		if err := c.releaseContainer(id); err != nil {
			log.WithError(err).Warn("container is not alive for the agent, but keeps its devices")
			continue
		}
		log.Info("container ended while nobody told")
	}
}

func (c *Manager) recoverContainer(id string) error {
	defer c.lockRoot(id)()
	return c.restoreFromCgroup(id, false)
}

// releaseEnded lets go of containers whose cgroup is gone, and with it all their
// processes. It passes by those that a call is about.
func (c *Manager) releaseEnded() error {
	c.mu.Lock()
	all := c.allocations.ListAll()
	c.mu.Unlock()
	for _, h := range all {
		if err := c.releaseIfEnded(h.Container); err != nil {
			return err
		}
	}
	return nil
}

func (c *Manager) releaseIfEnded(id string) error {
	unlock, ok := c.rootLocks.tryLock(allocation.RootID(id))
	if !ok {
		return nil
	}
	defer unlock()
	c.mu.Lock()
	isolated := c.infos[id].Isolated
	c.mu.Unlock()
	if !isolated {
		return nil // its cgroup is still to come
	}
	_, err := c.cfg.Kernel.DeviceRules(c.cgroupPath(id))
	if !errors.Is(err, fs.ErrNotExist) {
		return nil // what else is wrong shows where it matters
	}
	c.cfg.Log.WithField("container", id).Info("container's cgroup is gone: its devices are free")
	return c.releaseContainer(id)
}

// scanCgroups finds those containers again that hold devices, below a cgroup; the
// names of all of them begin with prefix.
func (c *Manager) scanCgroups(cgroup, prefix string) error {
	names, err := c.cfg.Kernel.ListChildCgroups(cgroup)
	if err != nil {
		return fmt.Errorf("search cgroups for containers: %w", err)
	}
	for _, name := range names {
		id := prefix + name
		if strings.Contains(name, ".") || CheckID(id) != nil {
			continue
		}
		below := path.Join(cgroup, name)
		if held, err := c.cfg.Kernel.AllowedDevices(below); err == nil && len(held) > 0 {
			if err := c.restoreFromCgroup(id, false); err != nil {
				return err
			}
		}
		if err := c.scanCgroups(path.Join(below, nestedCgroupName), id+"."); err != nil {
			return err
		}
	}
	return nil
}

// restoreFromCgroup enters a container that is not in the books as its cgroup says,
// if it has one that is confined; with runs one without devices too. Without
// it that may be a container that is still to be prepared.
func (c *Manager) restoreFromCgroup(id string, runs bool) error {
	c.mu.Lock()
	_, known := c.allocations.Get(id)
	c.mu.Unlock()
	if known {
		return nil
	}
	list, err := c.cfg.Kernel.DeviceRules(c.cgroupPath(id))
	// One that nobody confined was launched past this daemon.
	if errors.Is(err, fs.ErrNotExist) || err == nil && rules.IsUnconfined(list) {
		return nil
	}
	if err != nil {
		return err
	}
	devices, err := c.cfg.Kernel.AllowedDevices(c.cgroupPath(id))
	if err != nil || len(devices) == 0 && !runs {
		return err
	}
	return c.restoreAllocation(id, devices)
}

func (c *Manager) restoreAllocation(id string, devices []string) error {
	log := c.cfg.Log.WithField("container", id)
	c.mu.Lock()
	h, err := c.allocations.RestoreAllocation(id, devices)
	if err == nil {
		c.allocations.SetAllocations(h)
		c.infos[id] = containerInfo{Isolated: true}
	}
	c.mu.Unlock()
	if err != nil {
		log.WithError(err).Error("container's cgroup contradicts the books: nothing is changed")
		return nil
	}
	log.WithField("gpus", devices).Info("container found again from its cgroup")
	return c.saveRecords(h)
}
