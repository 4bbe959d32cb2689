// Package cgroup writes device rules into the cgroup v1 devices hierarchy and
// reads them back. It decides nothing: which rules a container gets comes
// from package rules, and a kernel that says otherwise afterwards is an error.
package cgroup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mesos-gpu/isolator/rules"
)

// DefaultRoot is where the devices hierarchy is mounted everywhere.
const DefaultRoot = "/sys/fs/cgroup/devices"

// maxList bounds a devices.list: the kernel's longest line has 30 bytes.
const maxList = 1 << 20

// V1 is a devices hierarchy. Paths of cgroups are taken below Root, whatever
// ".." they hold.
type V1 struct {
	// Root is the mount point; empty means DefaultRoot.
	Root string
}

// dir is where a cgroup is, or with names a file of it.
func (c V1) dir(path string, names ...string) string {
	root := c.Root
	if root == "" {
		root = DefaultRoot
	}
	return filepath.Join(append([]string{root, filepath.Clean("/" + path)}, names...)...)
}

// Create makes the cgroup and its parents. One that exists is kept.
func (c V1) Create(path string) error {
	if _, err := os.Stat(c.dir("")); err != nil {
		return fmt.Errorf("create device cgroup %s: %w", path, err)
	}
	if err := os.MkdirAll(c.dir(path), 0o755); err != nil {
		return fmt.Errorf("create device cgroup %s: %w", path, err)
	}
	return nil
}

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
		if err := c.write(path, "devices.deny", "a"); err != nil {
			return err
		}
		now = nil
	}
	for _, r := range rules.Subtract(now, list) {
		if err := c.write(path, "devices.deny", r.String()); err != nil {
			return err
		}
	}
	for _, r := range rules.Subtract(list, now) {
		if err := c.write(path, "devices.allow", r.String()); err != nil {
			return err
		}
	}
	return c.verify(path, list)
}

func (c V1) verify(path string, want []rules.Rule) error {
	got, err := c.Read(path)
	if err != nil {
		return err
	}
	more, less := rules.Subtract(got, want), rules.Subtract(want, got)
	if len(more)+len(less) > 0 {
		return fmt.Errorf("confine device cgroup %s: after writing, the kernel allows %s too much and %s too little",
			path, join(more), join(less))
	}
	return nil
}

func join(list []rules.Rule) string {
	if len(list) == 0 {
		return "nothing"
	}
	lines := make([]string, len(list))
	for i, r := range list {
		lines[i] = r.String()
	}
	return "[" + strings.Join(lines, ", ") + "]"
}

// Read gives what the cgroup allows; one nobody confined has the rule
// "a *:* rwm".
func (c V1) Read(path string) ([]rules.Rule, error) {
	f, err := os.Open(c.dir(path, "devices.list"))
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

// AddProcess moves a process into the cgroup; its future children follow.
func (c V1) AddProcess(path string, pid int) error {
	return c.write(path, "cgroup.procs", strconv.Itoa(pid))
}

// Remove removes the cgroup and those below it. One that is not there is
// removed already. A process in it is an error: EBUSY.
func (c V1) Remove(path string) error {
	if c.dir(path) == c.dir("") {
		return errors.New("remove device cgroup: the root of the hierarchy cannot be removed")
	}
	entries, err := os.ReadDir(c.dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove device cgroup %s: %w", path, err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := c.Remove(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	// Not os.Remove: on some error it would try to unlink as well.
	if err := rmdir(c.dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove device cgroup %s: %w", path, err)
	}
	return nil
}

// write makes one write(2): the kernel takes one rule or process at a time.
func (c V1) write(path, name, line string) error {
	f, err := os.OpenFile(c.dir(path, name), os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = f.WriteString(line)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("write %q to %s of device cgroup %s: %w", line, name, path, err)
	}
	return nil
}
