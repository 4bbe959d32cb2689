package cgroup

import (
	"fmt"
	"io"
	"os"
	"slices"

	"mesos-gpu/isolator/rules"
)

// DefaultRoot is where the devices hierarchy is mounted everywhere.
const DefaultRoot = "/sys/fs/cgroup/devices"

// maxList bounds a devices.list: the kernel's longest line has 30 bytes.
const maxList = 1 << 20

// V1 is a devices hierarchy of cgroup version 1, which keeps one list of
// rules for each cgroup.
type V1 struct {
	// Root is the mount point; empty means DefaultRoot.
	Root string
}

func (c V1) tree() tree {
	if c.Root == "" {
		return DefaultRoot
	}
	return tree(c.Root)
}

// Create makes the cgroup and its parents. One that exists is kept.
func (c V1) Create(path string) error { return c.tree().create(path) }

// Confine lets the cgroup's processes open what list allows and nothing else,
// then reads the kernel's list back: a difference is an error. Processes keep
// what they hold open. Where the cgroup was confined before, only the
// difference is written, so that its processes lose nothing in between and it
// may have cgroups below, which the kernel's "deny all" does not suffer.
func (c V1) Confine(path string, list []rules.Rule) error {
	now, err := c.Read(path)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(now, func(r rules.Rule) bool { return r.Kind == 'a' }) {
		if err := c.tree().write(path, "devices.deny", "a"); err != nil {
			return err
		}
		now = nil
	}
	for _, r := range rules.Subtract(now, list) {
		if err := c.tree().write(path, "devices.deny", r.String()); err != nil {
			return err
		}
	}
	for _, r := range rules.Subtract(list, now) {
		if err := c.tree().write(path, "devices.allow", r.String()); err != nil {
			return err
		}
	}
	return verify(c, path, list)
}

// Default does nothing: a new cgroup of version 1 has its parent's list, and
// that is for Mesos or an operator to narrow.
func (c V1) Default(string, []rules.Rule) error { return nil }

// Read gives what the cgroup allows; one nobody confined has the rule
// "a *:* rwm".
func (c V1) Read(path string) ([]rules.Rule, error) {
	f, err := os.Open(c.tree().dir(path, "devices.list"))
	if err != nil {
		return nil, fmt.Errorf("read device cgroup %s: %w", path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxList+1))
	if err != nil {
		return nil, fmt.Errorf("read device cgroup %s: %w", path, err)
	}
	if len(text) > maxList {
		return nil, fmt.Errorf("read device cgroup %s: devices.list has more than %d bytes", path, maxList)
	}
	list, err := rules.ParseList(string(text))
	if err != nil {
		return nil, fmt.Errorf("read device cgroup %s: %w", path, err)
	}
	return list, nil
}

// Confined reports whether anybody confined the cgroup.
func (c V1) Confined(path string) (bool, error) {
	now, err := c.Read(path)
	return err == nil && !rules.Unconfined(now), err
}

// Of reads a /proc/PID/cgroup file and gives the process's path, "/" for the
// root of the hierarchy. Returns ErrNoHierarchy if it is in none.
func (V1) Of(procCgroup string) (string, error) { return devicesV1.of(procCgroup) }

// AddProcess moves a process into the cgroup; its future children follow.
func (c V1) AddProcess(path string, pid int) error { return c.tree().addProcess(path, pid) }

// Release leaves the cgroup's list as it is: it goes when its maker removes
// the cgroup.
func (c V1) Release(string) error { return nil }

// Below are the names of the cgroups right below that one, in order; none if
// it is not there.
func (c V1) Below(path string) ([]string, error) { return c.tree().below(path) }

// Made reports whether Create made the cgroup, this process's or one before.
func (c V1) Made(path string) bool { return c.tree().made(path) }

// Remove removes the cgroup and those below it. One that is not there is
// removed already. A process in it is an error: EBUSY.
func (c V1) Remove(path string) error { return c.tree().remove(path) }
