package cgroup

import (
	"fmt"
	"io"
	"os"
	"slices"

	"mesos-gpu/isolator/rules"
)

// DefaultV1Root is the usual mount point of the devices hierarchy.
const DefaultV1Root = "/sys/fs/cgroup/devices"

// maxListBytes bounds the size of a devices.list. The kernel's longest line has 30 bytes.
const maxListBytes = 1 << 20

// V1 is a devices hierarchy of cgroup version 1, in which each cgroup has one list of rules.
type V1 struct {
	// Root is the mount point; empty means DefaultV1Root.
	Root string
}

func (v V1) rootTree() cgroupTree {
	if v.Root == "" {
		return DefaultV1Root
	}
	return cgroupTree(v.Root)
}

// CreateCgroup creates the cgroup and its parents. It leaves an existing cgroup as it is.
func (v V1) CreateCgroup(path string) error { return v.rootTree().createCgroup(path) }

// ConfineCgroup allows the cgroup's processes what list allows and nothing else, then reads the
// kernel's list back. Processes keep devices that they have open. If the cgroup was confined
// before, only the difference is written: its processes lose no access in between, and it may
// have cgroups below, for which the kernel rejects "deny all".
func (v V1) ConfineCgroup(path string, list []rules.DeviceRule) error {
	now, err := v.ReadRules(path)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(now, func(r rules.DeviceRule) bool { return r.Kind == 'a' }) {
		if err := v.rootTree().writeFile(path, "devices.deny", "a"); err != nil {
			return err
		}
		now = nil
	}
	for _, r := range rules.SubtractRules(now, list) {
		if err := v.rootTree().writeFile(path, "devices.deny", r.String()); err != nil {
			return err
		}
	}
	for _, r := range rules.SubtractRules(list, now) {
		if err := v.rootTree().writeFile(path, "devices.allow", r.String()); err != nil {
			return err
		}
	}
	return verifyRules(v, path, list)
}

// SetDefaultRules does nothing: a new cgroup of version 1 has its parent's list, which Mesos or
// an operator restricts.
func (v V1) SetDefaultRules(string, []rules.DeviceRule) error { return nil }

// ReadRules returns what the cgroup allows. An unconfined cgroup has the rule "a *:* rwm".
func (v V1) ReadRules(path string) ([]rules.DeviceRule, error) {
	f, err := os.Open(v.rootTree().cgroupPath(path, "devices.list"))
	if err != nil {
		return nil, fmt.Errorf("read device cgroup %s: %w", path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxListBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read device cgroup %s: %w", path, err)
	}
	if len(text) > maxListBytes {
		return nil, fmt.Errorf("read device cgroup %s: devices.list has more than %d bytes", path, maxListBytes)
	}
	list, err := rules.ParseRules(string(text))
	if err != nil {
		return nil, fmt.Errorf("read device cgroup %s: %w", path, err)
	}
	return list, nil
}

// IsConfined reports whether the cgroup is confined, by any program.
func (v V1) IsConfined(path string) (bool, error) {
	now, err := v.ReadRules(path)
	return err == nil && !rules.IsUnconfined(now), err
}

// ProcessCgroup reads a /proc/PID/cgroup file and returns the process's path, "/" for the root
// of the hierarchy. It returns ErrNoHierarchy if the process is not in the hierarchy.
func (V1) ProcessCgroup(procCgroup string) (string, error) {
	return devicesV1.readProcessCgroup(procCgroup)
}

// AddProcess moves a process into the cgroup; its future children follow.
func (v V1) AddProcess(path string, pid int) error { return v.rootTree().addProcess(path, pid) }

// DetachRules leaves the cgroup's list as it is: the list is removed with the cgroup.
func (v V1) DetachRules(string) error { return nil }

// ListChildCgroups returns the names of the cgroups directly below the cgroup, sorted; none if
// it does not exist.
func (v V1) ListChildCgroups(path string) ([]string, error) {
	return v.rootTree().listChildCgroups(path)
}

// IsOwned reports whether CreateCgroup created the cgroup, in this or an earlier process.
func (v V1) IsOwned(path string) bool { return v.rootTree().isOwned(path) }

// RemoveCgroup removes the cgroup and those below it. A cgroup that does not exist is no error.
// If it contains a process the error is EBUSY.
func (v V1) RemoveCgroup(path string) error { return v.rootTree().removeCgroup(path) }
