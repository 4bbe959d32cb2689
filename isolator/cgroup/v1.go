package cgroup

import (
	"fmt"
	"io"
	"os"
	"slices"

	"mesos-gpu/isolator/rules"
)

// DefaultV1Root is where the devices hierarchy is mounted everywhere.
const DefaultV1Root = "/sys/fs/cgroup/devices"

// maxListBytes bounds a devices.list: the kernel's longest line has 30 bytes.
const maxListBytes = 1 << 20

// V1 is a devices hierarchy of cgroup version 1, which keeps one list of
// rules for each cgroup.
type V1 struct {
	// Root is the mount point; empty means DefaultV1Root.
	Root string
}

func (c V1) rootTree() cgroupTree {
	if c.Root == "" {
		return DefaultV1Root
	}
	return cgroupTree(c.Root)
}

// CreateCgroup makes the cgroup and its parents. One that exists is kept.
func (c V1) CreateCgroup(path string) error { return c.rootTree().createCgroup(path) }

// ConfineCgroup lets the cgroup's processes open what list allows and nothing else,
// then reads the kernel's list back: a difference is an error. Processes keep
// what they hold open. Where the cgroup was confined before, only the
// difference is written, so that its processes lose nothing in between and it
// may have cgroups below, which the kernel's "deny all" does not suffer.
func (c V1) ConfineCgroup(path string, list []rules.DeviceRule) error {
	now, err := c.ReadRules(path)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(now, func(r rules.DeviceRule) bool { return r.Kind == 'a' }) {
		if err := c.rootTree().writeFile(path, "devices.deny", "a"); err != nil {
			return err
		}
		now = nil
	}
	for _, r := range rules.SubtractRules(now, list) {
		if err := c.rootTree().writeFile(path, "devices.deny", r.String()); err != nil {
			return err
		}
	}
	for _, r := range rules.SubtractRules(list, now) {
		if err := c.rootTree().writeFile(path, "devices.allow", r.String()); err != nil {
			return err
		}
	}
	return verifyRules(c, path, list)
}

// SetDefaultRules does nothing: a new cgroup of version 1 has its parent's list, and
// that is for Mesos or an operator to narrow.
func (c V1) SetDefaultRules(string, []rules.DeviceRule) error { return nil }

// ReadRules gives what the cgroup allows; one nobody confined has the rule
// "a *:* rwm".
func (c V1) ReadRules(path string) ([]rules.DeviceRule, error) {
	f, err := os.Open(c.rootTree().cgroupPath(path, "devices.list"))
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

// IsConfined reports whether anybody confined the cgroup.
func (c V1) IsConfined(path string) (bool, error) {
	now, err := c.ReadRules(path)
	return err == nil && !rules.IsUnconfined(now), err
}

// ProcessCgroup reads a /proc/PID/cgroup file and gives the process's path, "/" for the
// root of the hierarchy. Returns ErrNoHierarchy if it is in none.
func (V1) ProcessCgroup(procCgroup string) (string, error) {
	return devicesV1.readProcessCgroup(procCgroup)
}

// AddProcess moves a process into the cgroup; its future children follow.
func (c V1) AddProcess(path string, pid int) error { return c.rootTree().addProcess(path, pid) }

// DetachRules leaves the cgroup's list as it is: it goes when its maker removes
// the cgroup.
func (c V1) DetachRules(string) error { return nil }

// ListChildCgroups are the names of the cgroups right below that one, in order; none if
// it is not there.
func (c V1) ListChildCgroups(path string) ([]string, error) {
	return c.rootTree().listChildCgroups(path)
}

// IsOwned reports whether Create made the cgroup, this process's or one before.
func (c V1) IsOwned(path string) bool { return c.rootTree().isOwned(path) }

// RemoveCgroup removes the cgroup and those below it. One that is not there is
// removed already. A process in it is an error: EBUSY.
func (c V1) RemoveCgroup(path string) error { return c.rootTree().removeCgroup(path) }
