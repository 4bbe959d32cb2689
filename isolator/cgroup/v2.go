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

// DefaultV2Root is where cgroup v2 is mounted on machines without v1.
const DefaultV2Root = "/sys/fs/cgroup"

// V2 is a hierarchy of cgroup version 2. Each confined cgroup has one program
// of this package with its own map of rules. They stay when the process that
// attached them ends, and whoever comes after it finds them by their names;
// the programs of others are left alone.
type V2 struct {
	// Root is the mount point; empty means DefaultV2Root.
	Root string
}

func (c V2) rootTree() cgroupTree {
	if c.Root == "" {
		return DefaultV2Root
	}
	return cgroupTree(c.Root)
}

// CreateCgroup makes the cgroup and its parents. One that exists is kept.
func (c V2) CreateCgroup(path string) error { return c.rootTree().createCgroup(path) }

// ConfineCgroup lets the cgroup's processes, and those of the cgroups below, open
// what list allows and nothing else, then reads the kernel's map back: a
// difference is an error, as for a cgroup that is to get what one above it
// may not open. Processes keep what they hold open. Where the cgroup was
// confined before, only the difference is written.
func (c V2) ConfineCgroup(path string, list []rules.DeviceRule) error {
	if err := c.attachRules(path, ownRole, list); err != nil {
		return fmt.Errorf("confine device cgroup %s: %w", path, err)
	}
	return verifyRules(c, path, list)
}

// SetDefaultRules does so for the cgroups below that have not been confined, until
// they are. It makes the cgroup where it is not there yet.
func (c V2) SetDefaultRules(path string, list []rules.DeviceRule) error {
	if c.rootTree().cgroupPath(path) == c.rootTree().cgroupPath("") {
		return fmt.Errorf("confine device cgroups below %s: that is the root, which holds the whole machine", path)
	}
	if err := c.CreateCgroup(path); err != nil {
		return err
	}
	if err := c.attachRules(path, defaultRole, list); err != nil {
		return fmt.Errorf("confine device cgroups below %s: %w", path, err)
	}
	return verifyRules(c, path, list)
}

func (c V2) attachRules(path string, r programRole, list []rules.DeviceRule) error {
	entries, err := encodeRules(list)
	if err != nil {
		return err
	}
	return c.withPrograms(path, func(cgroup int, all []attachedProgram) error {
		current := slices.IndexFunc(all, func(a attachedProgram) bool { return a.name == r.programName() && len(a.maps) == 1 })
		if current >= 0 {
			err = all[current].updateRules(entries)
		} else {
			err = r.replacePrograms(cgroup, entries, all)
		}
		if err != nil || r == defaultRole { // which was replaced by attaching
			return err
		}
		return detachOthers(cgroup, r, all, current)
	})
}

// withPrograms opens a cgroup and looks up the programs attached to it.
func (c V2) withPrograms(path string, do func(cgroup int, all []attachedProgram) error) error {
	dir, err := os.Open(c.rootTree().cgroupPath(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	all, err := listPrograms(int(dir.Fd()))
	if err != nil {
		return err
	}
	defer closePrograms(all)
	return do(int(dir.Fd()), all)
}

// replacePrograms attaches a new program. Until the old ones are detached all of them
// count, so that nothing is open for a moment that none of them allows.
func (r programRole) replacePrograms(cgroup int, entries map[ruleKey]uint32, all []attachedProgram) error {
	others := slices.DeleteFunc(slices.Clone(all), func(a attachedProgram) bool { return a.hasRole(ownRole) || a.hasRole(defaultRole) })
	if r == defaultRole && len(others) > 0 {
		return fmt.Errorf("program %s of another is attached there, and attaching would replace it", others[0].name)
	}
	p, err := r.loadProgram(entries)
	if err != nil {
		return err
	}
	defer p.Close()
	err = r.attachProgram(cgroup, p)
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
func detachOthers(cgroup int, r programRole, all []attachedProgram, but int) error {
	for i, a := range all {
		if i == but || !a.hasRole(r) {
			continue
		}
		if err := a.detachFrom(cgroup); err != nil {
			return err
		}
	}
	return nil
}

// ProcessCgroup reads a /proc/PID/cgroup file and gives the process's path, "/" for the
// root of the hierarchy. Returns ErrNoHierarchy if it is in none.
func (V2) ProcessCgroup(procCgroup string) (string, error) {
	return unifiedV2.readProcessCgroup(procCgroup)
}

// AddProcess moves a process into the cgroup; its future children follow.
func (c V2) AddProcess(path string, pid int) error { return c.rootTree().addProcess(path, pid) }

// DetachRules detaches the program from a cgroup that has no process any more. It
// stays on one that has: it goes with the cgroup.
func (c V2) DetachRules(path string) error {
	events, err := os.ReadFile(c.rootTree().cgroupPath(path, "cgroup.events"))
	if err != nil {
		return fmt.Errorf("release device cgroup %s: %w", path, err)
	}
	if !strings.Contains("\n"+string(events), "\npopulated 0\n") {
		return nil
	}
	err = c.withPrograms(path, func(cgroup int, all []attachedProgram) error { return detachOthers(cgroup, ownRole, all, -1) })
	if err != nil {
		return fmt.Errorf("release device cgroup %s: %w", path, err)
	}
	return nil
}

// ListChildCgroups are the names of the cgroups right below that one, in order; none if
// it is not there.
func (c V2) ListChildCgroups(path string) ([]string, error) {
	return c.rootTree().listChildCgroups(path)
}

// IsOwned reports whether Create made the cgroup, this process's or one before.
func (c V2) IsOwned(path string) bool { return c.rootTree().isOwned(path) }

// RemoveCgroup removes the cgroup and those below it. One that is not there is
// removed already. A process in it is an error: EBUSY.
func (c V2) RemoveCgroup(path string) error { return c.rootTree().removeCgroup(path) }
