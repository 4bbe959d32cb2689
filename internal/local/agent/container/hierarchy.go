package container

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hierarchy is one mounted cgroup hierarchy. One of version 2 beside those of
// version 1 has no controllers; runc makes cgroups there too.
type hierarchy struct {
	dir         string
	controllers []string
}

// parseHierarchies reads /proc/self/mountinfo. A hierarchy mounted twice is
// listed once, and one whose root is not its mount's is not: paths there mean
// something else.
func parseHierarchies(mountinfo string) []hierarchy {
	var found []hierarchy
	seen := map[string]bool{}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 6 || len(right) < 3 || left[3] != "/" || seen[right[0]+right[2]] {
			continue
		}
		h := hierarchy{dir: left[4]}
		switch right[0] {
		case "cgroup":
			h.controllers = strings.Split(right[2], ",")
		case "cgroup2":
		default:
			continue
		}
		seen[right[0]+right[2]] = true
		found = append(found, h)
	}
	return found
}

// cgroups are the hierarchies of this machine. Paths are the same in all.
type cgroups struct{ all []hierarchy }

// used are the controllers that a container gets a cgroup of. It is only in
// the others that runc may have made some.
func used() []string { return []string{"devices", "memory", "cpu", "freezer"} }

// with finds the hierarchy of a controller.
func (c cgroups) with(controller string) (hierarchy, bool) {
	i := slices.IndexFunc(c.all, func(h hierarchy) bool { return slices.Contains(h.controllers, controller) })
	if i < 0 {
		return hierarchy{}, false
	}
	return c.all[i], true
}

// dirs lists the folders of the cgroup at path in the used hierarchies.
func (c cgroups) dirs(path string) []string {
	var dirs []string
	for _, controller := range used() {
		if h, ok := c.with(controller); ok {
			dirs = append(dirs, filepath.Join(h.dir, path))
		}
	}
	return dirs
}

func (c cgroups) create(path string) error {
	for _, dir := range c.dirs(path) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create cgroup: %w", err)
		}
	}
	return nil
}

// enter moves a process into the cgroup, in every used hierarchy.
func (c cgroups) enter(path string, pid int) error {
	for _, dir := range c.dirs(path) {
		if err := write(filepath.Join(dir, "cgroup.procs"), fmt.Sprint(pid)); err != nil {
			return err
		}
	}
	return nil
}

// Least values, as Mesos has them.
const (
	minMemBytes   = 32 << 20
	minCPUShares  = 2
	sharesPerCPUs = 1024
)

// limit writes the limits where the machine has the hierarchies.
func (c cgroups) limit(path string, l Limits) error {
	if h, ok := c.with("memory"); ok && l.MemBytes > 0 {
		if err := write(filepath.Join(h.dir, path, "memory.limit_in_bytes"), fmt.Sprint(max(l.MemBytes, minMemBytes))); err != nil {
			return err
		}
	}
	if h, ok := c.with("cpu"); ok && l.CPUs > 0 {
		shares := max(int64(l.CPUs*sharesPerCPUs), minCPUShares)
		if err := write(filepath.Join(h.dir, path, "cpu.shares"), fmt.Sprint(shares)); err != nil {
			return err
		}
	}
	return nil
}

// oomKilled reports whether the kernel has killed a process of the cgroup for
// want of memory.
func (c cgroups) oomKilled(path string) bool {
	h, ok := c.with("memory")
	if !ok {
		return false
	}
	f, err := os.Open(filepath.Join(h.dir, path, "memory.oom_control"))
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if count, ok := strings.CutPrefix(lines.Text(), "oom_kill "); ok {
			return count != "0"
		}
	}
	return false
}

// exists reports whether the cgroup is anywhere.
func (c cgroups) exists(path string) bool {
	return slices.ContainsFunc(c.all, func(h hierarchy) bool {
		_, err := os.Stat(filepath.Join(h.dir, path))
		return err == nil
	})
}

// write makes one write to a control file, without creating it.
func write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write cgroup: %w", err)
	}
	_, err = f.WriteString(value)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %q to cgroup: %w", value, err)
	}
	return nil
}

// gone treats a file that is no longer there as success.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
