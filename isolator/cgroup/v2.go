package cgroup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mesos-gpu/isolator/rules"
)

// DefaultUnifiedRoot is where cgroup v2 is mounted on machines without v1.
const DefaultUnifiedRoot = "/sys/fs/cgroup"

// V2 is a hierarchy of cgroup version 2. Each confined cgroup has one program
// of this package with its own map of rules. They stay when the process that
// attached them ends, and whoever comes after it finds them by their names;
// the programs of others are left alone.
type V2 struct {
	// Root is the mount point; empty means DefaultUnifiedRoot.
	Root string
}

func (c V2) tree() tree {
	if c.Root == "" {
		return DefaultUnifiedRoot
	}
	return tree(c.Root)
}

// Create makes the cgroup and its parents. One that exists is kept.
func (c V2) Create(path string) error { return c.tree().create(path) }

// Confine lets the cgroup's processes, and those of the cgroups below, open
// what list allows and nothing else, then reads the kernel's map back: a
// difference is an error, as for a cgroup that is to get what one above it
// may not open. Processes keep what they hold open. Where the cgroup was
// confined before, only the difference is written.
func (c V2) Confine(path string, list []rules.Rule) error {
	if err := c.confine(path, own, list); err != nil {
		return fmt.Errorf("confine device cgroup %s: %w", path, err)
	}
	return verify(c, path, list)
}

// Default does so for the cgroups below that have not been confined, until
// they are. It makes the cgroup where it is not there yet.
func (c V2) Default(path string, list []rules.Rule) error {
	if c.tree().dir(path) == c.tree().dir("") {
		return fmt.Errorf("confine device cgroups below %s: that is the root, which holds the whole machine", path)
	}
	if err := c.Create(path); err != nil {
		return err
	}
	if err := c.confine(path, fallback, list); err != nil {
		return fmt.Errorf("confine device cgroups below %s: %w", path, err)
	}
	return verify(c, path, list)
}

func (c V2) confine(path string, r role, list []rules.Rule) error {
	entries, err := encode(list)
	if err != nil {
		return err
	}
	return c.with(path, func(cgroup int, all []attached) error {
		current := slices.IndexFunc(all, func(a attached) bool { return a.name == r.name() && len(a.maps) == 1 })
		if current >= 0 {
			err = all[current].change(entries)
		} else {
			err = r.replace(cgroup, entries, all)
		}
		if err != nil || r == fallback { // which was replaced by attaching
			return err
		}
		return detachOthers(cgroup, r, all, current)
	})
}

// with opens a cgroup and looks up the programs attached to it.
func (c V2) with(path string, do func(cgroup int, all []attached) error) error {
	dir, err := os.Open(c.tree().dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	all, err := programs(int(dir.Fd()))
	if err != nil {
		return err
	}
	defer closeAll(all)
	return do(int(dir.Fd()), all)
}

// replace attaches a new program. Until the old ones are detached all of them
// count, so that nothing is open for a moment that none of them allows.
func (r role) replace(cgroup int, entries map[key]uint32, all []attached) error {
	others := slices.DeleteFunc(slices.Clone(all), func(a attached) bool { return a.is(own) || a.is(fallback) })
	if r == fallback && len(others) > 0 {
		return fmt.Errorf("program %s of another is attached there, and attaching would replace it", others[0].name)
	}
	p, err := r.load(entries)
	if err != nil {
		return err
	}
	defer p.Close()
	err = r.attach(cgroup, p)
	switch {
	case errors.Is(err, unix.EPERM) && len(others) > 0:
		return fmt.Errorf("%w: program %s of another is attached there and wants no other beside it", err, others[0].name)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: this process lacks CAP_NET_ADMIN, or a cgroup above has a program that allows none below (bpftool cgroup tree)", err)
	}
	return err
}

// detachOthers detaches the programs of that role but one: what other versions
// left, and a process that ended between attaching and detaching.
func detachOthers(cgroup int, r role, all []attached, but int) error {
	for i, a := range all {
		if i == but || !a.is(r) {
			continue
		}
		if err := a.detach(cgroup); err != nil {
			return err
		}
	}
	return nil
}

// Of reads a /proc/PID/cgroup file and gives the process's path, "/" for the
// root of the hierarchy. Returns ErrNoHierarchy if it is in none.
func (V2) Of(procCgroup string) (string, error) { return unified.of(procCgroup) }

// AddProcess moves a process into the cgroup; its future children follow.
func (c V2) AddProcess(path string, pid int) error { return c.tree().addProcess(path, pid) }

// Release detaches the program from a cgroup that has no process any more. It
// stays on one that has: it goes with the cgroup.
func (c V2) Release(path string) error {
	events, err := os.ReadFile(c.tree().dir(path, "cgroup.events"))
	if err != nil {
		return fmt.Errorf("release device cgroup %s: %w", path, err)
	}
	if !strings.Contains("\n"+string(events), "\npopulated 0\n") {
		return nil
	}
	err = c.with(path, func(cgroup int, all []attached) error { return detachOthers(cgroup, own, all, -1) })
	if err != nil {
		return fmt.Errorf("release device cgroup %s: %w", path, err)
	}
	return nil
}

// Below are the names of the cgroups right below that one, in order; none if
// it is not there.
func (c V2) Below(path string) ([]string, error) { return c.tree().below(path) }

// Made reports whether Create made the cgroup, this process's or one before.
func (c V2) Made(path string) bool { return c.tree().made(path) }

// Remove removes the cgroup and those below it. One that is not there is
// removed already. A process in it is an error: EBUSY.
func (c V2) Remove(path string) error { return c.tree().remove(path) }
