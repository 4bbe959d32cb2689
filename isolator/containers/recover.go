package containers

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mesos-gpu/isolator/ledger"
	"mesos-gpu/isolator/rules"
)

// Cleanup lets go of a container and those nested in it. One that is not known
// is cleaned up already.
func (c *Containers) Cleanup(container string) error {
	if err := CheckID(container); err != nil {
		return err
	}
	defer c.enter(container)()
	return c.letGo(container)
}

func (c *Containers) letGo(container string) error {
	c.mu.Lock()
	ends := c.confinements(container)
	c.mu.Unlock()
	for _, e := range slices.Backward(ends) { // nested ones first
		if e.between {
			continue // it goes with the container's
		}
		if err := c.cfg.Kernel.Remove(e.cgroup); err != nil {
			return fmt.Errorf("clean up container %s: %w", container, err)
		}
	}
	if err := c.release(container); err != nil {
		return fmt.Errorf("clean up container %s: %w", container, err)
	}
	return nil
}

// Recover keeps the containers that are alive and lets go of all others; those
// alive whose files are lost are found again from their cgroups.
func (c *Containers) Recover(alive []string) error {
	for _, id := range alive {
		if err := CheckID(id); err != nil {
			return err
		}
	}
	c.dropStrangers(alive)
	if err := c.sweep(); err != nil {
		return fmt.Errorf("recover containers: %w", err)
	}
	parentsFirst := slices.SortedFunc(slices.Values(alive), func(a, b string) int {
		return cmp.Compare(strings.Count(a, "."), strings.Count(b, "."))
	})
	for _, id := range parentsFirst {
		if err := c.recover(id); err != nil {
			return fmt.Errorf("recover containers: %w", err)
		}
	}
	return nil
}

// dropStrangers lets go of those that are not alive. One that cannot be, for
// a process of it is left, keeps its devices: an agent that cannot recover
// for that would help nobody.
func (c *Containers) dropStrangers(alive []string) {
	c.all.Lock()
	defer c.all.Unlock()
	c.mu.Lock()
	strangers := c.books.Strangers(alive)
	c.mu.Unlock()
	for _, id := range strangers {
		log := c.cfg.Log.WithField("container", id)
		if err := c.letGo(id); err != nil {
			log.WithError(err).Warn("container is not alive for the agent, but keeps its devices")
			continue
		}
		log.Info("container ended while nobody told")
	}
}

func (c *Containers) recover(id string) error {
	defer c.enter(id)()
	return c.findAgain(id, false)
}

// sweep lets go of containers whose cgroup is gone, and with it all their
// processes. It passes by those that a call is about.
func (c *Containers) sweep() error {
	c.mu.Lock()
	all := c.books.All()
	c.mu.Unlock()
	for _, h := range all {
		if err := c.sweepOne(h.Container); err != nil {
			return err
		}
	}
	return nil
}

func (c *Containers) sweepOne(id string) error {
	unlock, ok := c.roots.tryLock(ledger.Root(id))
	if !ok {
		return nil
	}
	defer unlock()
	c.mu.Lock()
	isolated := c.facts[id].Isolated
	c.mu.Unlock()
	if !isolated {
		return nil // its cgroup is still to come
	}
	_, err := c.cfg.Kernel.Rules(c.cgroup(id))
	if !errors.Is(err, fs.ErrNotExist) {
		return nil // what else is wrong shows where it matters
	}
	c.cfg.Log.WithField("container", id).Info("container's cgroup is gone: its devices are free")
	return c.letGo(id)
}

// search finds those containers again that hold devices, below a cgroup; the
// names of all of them begin with prefix.
func (c *Containers) search(cgroup, prefix string) error {
	names, err := c.cfg.Kernel.Below(cgroup)
	if err != nil {
		return fmt.Errorf("search cgroups for containers: %w", err)
	}
	for _, name := range names {
		id := prefix + name
		if strings.Contains(name, ".") || CheckID(id) != nil {
			continue
		}
		below := path.Join(cgroup, name)
		if held, err := c.cfg.Kernel.Holding(below); err == nil && len(held) > 0 {
			if err := c.findAgain(id, false); err != nil {
				return err
			}
		}
		if err := c.search(path.Join(below, separator), id+"."); err != nil {
			return err
		}
	}
	return nil
}

// findAgain enters a container that is not in the books as its cgroup says,
// if it has one that is confined; with runs one without devices too. Without
// it that may be a container that is still to be prepared.
func (c *Containers) findAgain(id string, runs bool) error {
	c.mu.Lock()
	_, known := c.books.Get(id)
	c.mu.Unlock()
	if known {
		return nil
	}
	list, err := c.cfg.Kernel.Rules(c.cgroup(id))
	// One that nobody confined was launched past this daemon.
	if errors.Is(err, fs.ErrNotExist) || err == nil && rules.Unconfined(list) {
		return nil
	}
	if err != nil {
		return err
	}
	devices, err := c.cfg.Kernel.Holding(c.cgroup(id))
	if err != nil || len(devices) == 0 && !runs {
		return err
	}
	return c.restore(id, devices)
}

func (c *Containers) restore(id string, devices []string) error {
	log := c.cfg.Log.WithField("container", id)
	c.mu.Lock()
	h, err := c.books.Restore(id, devices)
	if err == nil {
		c.books.Set(h)
		c.facts[id] = facts{Isolated: true}
	}
	c.mu.Unlock()
	if err != nil {
		log.WithError(err).Error("container's cgroup contradicts the books: nothing is changed")
		return nil
	}
	log.WithField("gpus", devices).Info("container found again from its cgroup")
	return c.save(h)
}
