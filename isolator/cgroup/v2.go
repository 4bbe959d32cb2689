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

// DefaultV2Root is where cgroup v2 is mounted on hosts without v1.
const DefaultV2Root = "/sys/fs/cgroup"

// V2 is a hierarchy of cgroup version 2. Each confined cgroup has one program of this package
// with its own map of rules. A program stays attached when the process that attached it ends;
// later processes find it by its name. Programs of other software are not changed.
type V2 struct {
	// Root is the mount point; empty means DefaultV2Root.
	Root string
}

func (v V2) rootTree() cgroupTree {
	if v.Root == "" {
		return DefaultV2Root
	}
	return cgroupTree(v.Root)
}

// CreateCgroup creates the cgroup and its parents. It leaves an existing cgroup as it is.
func (v V2) CreateCgroup(path string) error { return v.rootTree().createCgroup(path) }

// ConfineCgroup allows the processes of the cgroup and of the cgroups below what list allows
// and nothing else, then reads the kernel's map back. It fails if a cgroup above does not allow
// part of the list. Processes keep devices that they have open. If the cgroup was confined
// before, only the difference is written.
func (v V2) ConfineCgroup(path string, list []rules.DeviceRule) error {
	if err := v.attachRules(path, ownRole, list); err != nil {
		return fmt.Errorf("confine device cgroup %s: %w", path, err)
	}
	return verifyRules(v, path, list)
}

// SetDefaultRules applies list to the cgroups below until they are confined themselves. It
// creates the cgroup if it does not exist.
func (v V2) SetDefaultRules(path string, list []rules.DeviceRule) error {
	if v.rootTree().cgroupPath(path) == v.rootTree().cgroupPath("") {
		return fmt.Errorf("confine device cgroups below %s: it is the root of the hierarchy, which contains all processes of the host", path)
	}
	if err := v.CreateCgroup(path); err != nil {
		return err
	}
	if err := v.attachRules(path, defaultRole, list); err != nil {
		return fmt.Errorf("confine device cgroups below %s: %w", path, err)
	}
	return verifyRules(v, path, list)
}

func (v V2) attachRules(path string, r programRole, list []rules.DeviceRule) error {
	entries, err := encodeRules(list)
	if err != nil {
		return err
	}
	return v.withPrograms(path, func(cgroup int, all []attachedProgram) error {
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

// withPrograms opens a cgroup and calls do with the programs attached to it.
func (v V2) withPrograms(path string, do func(cgroup int, all []attachedProgram) error) error {
	dir, err := os.Open(v.rootTree().cgroupPath(path))
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

// replacePrograms attaches a new program. The old ones stay attached until the caller detaches
// them; all of them restrict the cgroup meanwhile, so nothing is allowed that only the old
// rules allow.
func (r programRole) replacePrograms(cgroup int, entries map[ruleKey]uint32, all []attachedProgram) error {
	others := slices.DeleteFunc(slices.Clone(all), func(a attachedProgram) bool { return a.hasRole(ownRole) || a.hasRole(defaultRole) })
	if r == defaultRole && len(others) > 0 {
		return fmt.Errorf("program %s of other software is attached there, and attaching would replace it", others[0].name)
	}
	p, err := r.loadProgram(entries)
	if err != nil {
		return err
	}
	defer p.Close()
	err = r.attachProgram(cgroup, p)
	switch {
	case errors.Is(err, unix.EPERM) && len(others) > 0:
		return fmt.Errorf("%w: program %s of other software is attached there and does not allow a second program", err, others[0].name)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: this process lacks CAP_NET_ADMIN, or a cgroup above has a program that allows none below (bpftool cgroup tree)", err)
	}
	return err
}

// detachOthers detaches the programs of the role except the one at index but: those of other
// versions, and those of a process that ended between attaching and detaching.
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

// ProcessCgroup reads a /proc/PID/cgroup file and returns the process's path, "/" for the root
// of the hierarchy. It returns ErrNoHierarchy if the process is not in the hierarchy.
func (V2) ProcessCgroup(procCgroup string) (string, error) {
	return unifiedV2.readProcessCgroup(procCgroup)
}

// AddProcess moves a process into the cgroup; its future children follow.
func (v V2) AddProcess(path string, pid int) error { return v.rootTree().addProcess(path, pid) }

// DetachRules detaches the program from a cgroup without processes. On a cgroup with processes
// the program stays until the cgroup is removed.
func (v V2) DetachRules(path string) error {
	events, err := os.ReadFile(v.rootTree().cgroupPath(path, "cgroup.events"))
	if err != nil {
		return fmt.Errorf("release device cgroup %s: %w", path, err)
	}
	if !strings.Contains("\n"+string(events), "\npopulated 0\n") {
		return nil
	}
	err = v.withPrograms(path, func(cgroup int, all []attachedProgram) error { return detachOthers(cgroup, ownRole, all, -1) })
	if err != nil {
		return fmt.Errorf("release device cgroup %s: %w", path, err)
	}
	return nil
}

// ListChildCgroups returns the names of the cgroups directly below the cgroup, sorted; none if
// it does not exist.
func (v V2) ListChildCgroups(path string) ([]string, error) {
	return v.rootTree().listChildCgroups(path)
}

// IsOwned reports whether CreateCgroup created the cgroup, in this or an earlier process.
func (v V2) IsOwned(path string) bool { return v.rootTree().isOwned(path) }

// RemoveCgroup removes the cgroup and those below it. A cgroup that does not exist is no error.
// If it contains a process the error is EBUSY.
func (v V2) RemoveCgroup(path string) error { return v.rootTree().removeCgroup(path) }
