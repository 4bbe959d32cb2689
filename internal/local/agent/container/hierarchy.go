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

	"mesos-gpu/internal/mounttable"
)

// cgroupHierarchy is one mounted cgroup hierarchy. A version 2 hierarchy on a
// hybrid machine has no controllers; runc creates cgroups there too.
type cgroupHierarchy struct {
	dir         string
	controllers []string
}

// parseHierarchies reads /proc/self/mountinfo. A hierarchy mounted twice is
// listed once, and one whose root is not its mount's is not: paths there mean
// something else.
func parseHierarchies(mountinfo string) []cgroupHierarchy {
	var found []cgroupHierarchy
	seen := map[string]bool{}
	mounts, _ := mounttable.Parse(mountinfo) // a line that does not parse is no cgroup mount
	for _, m := range mounts {
		id := m.FileSystem + strings.Join(m.SuperOptions, ",")
		if m.Root != "/" || seen[id] {
			continue
		}
		h := cgroupHierarchy{dir: m.Point}
		switch m.FileSystem {
		case "cgroup":
			h.controllers = m.SuperOptions
		case "cgroup2":
		default:
			continue
		}
		seen[id] = true
		found = append(found, h)
	}
	return found
}

// cgroupHierarchies are the hierarchies of this machine. Paths are the same in all.
type cgroupHierarchies struct{ all []cgroupHierarchy }

// usedControllers are the controllers that a container gets a cgroup of. It is only in
// the others that runc may have made some.
func usedControllers() []string { return []string{"devices", "memory", "cpu", "freezer"} }

// findHierarchy finds the hierarchy of a controller.
func (c cgroupHierarchies) findHierarchy(controller string) (cgroupHierarchy, bool) {
	i := slices.IndexFunc(c.all, func(h cgroupHierarchy) bool { return slices.Contains(h.controllers, controller) })
	if i < 0 {
		return cgroupHierarchy{}, false
	}
	return c.all[i], true
}

// cgroupDirs lists the folders of the cgroup at path in the used hierarchies.
func (c cgroupHierarchies) cgroupDirs(path string) []string {
	var dirs []string
	for _, controller := range usedControllers() {
		if h, ok := c.findHierarchy(controller); ok {
			dirs = append(dirs, filepath.Join(h.dir, path))
		}
	}
	return dirs
}

func (c cgroupHierarchies) createCgroup(path string) error {
	for _, dir := range c.cgroupDirs(path) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create cgroup: %w", err)
		}
	}
	return nil
}

// moveProcess moves a process into the cgroup, in every used hierarchy.
func (c cgroupHierarchies) moveProcess(path string, pid int) error {
	for _, dir := range c.cgroupDirs(path) {
		if err := writeControl(filepath.Join(dir, "cgroup.procs"), fmt.Sprint(pid)); err != nil {
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

// writeLimits writes the limits where the machine has the hierarchies.
func (c cgroupHierarchies) writeLimits(path string, l ContainerLimits) error {
	if h, ok := c.findHierarchy("memory"); ok && l.MemBytes > 0 {
		if err := writeControl(filepath.Join(h.dir, path, "memory.limit_in_bytes"), fmt.Sprint(max(l.MemBytes, minMemBytes))); err != nil {
			return err
		}
	}
	if h, ok := c.findHierarchy("cpu"); ok && l.CPUs > 0 {
		shares := max(int64(l.CPUs*sharesPerCPUs), minCPUShares)
		if err := writeControl(filepath.Join(h.dir, path, "cpu.shares"), fmt.Sprint(shares)); err != nil {
			return err
		}
	}
	return nil
}

// oomKilled reports whether the kernel has killed a process of the cgroup for
// want of memory.
func (c cgroupHierarchies) oomKilled(path string) bool {
	h, ok := c.findHierarchy("memory")
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

// cgroupExists reports whether the cgroup is anywhere.
func (c cgroupHierarchies) cgroupExists(path string) bool {
	return slices.ContainsFunc(c.all, func(h cgroupHierarchy) bool {
		_, err := os.Stat(filepath.Join(h.dir, path))
		return err == nil
	})
}

// writeControl makes one write to a control file, without creating it.
func writeControl(file, value string) error {
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

// ignoreMissing treats a file that is no longer there as success.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
