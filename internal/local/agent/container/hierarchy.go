package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mesos-gpu/internal/memorycgroup"
	"mesos-gpu/internal/mounttable"
)

// cgroupHierarchy is a mounted cgroup hierarchy. On a hybrid machine the
// version 2 hierarchy has no controllers, but runc creates cgroups in it.
type cgroupHierarchy struct {
	dir         string
	controllers []string
}

// parseHierarchies parses /proc/self/mountinfo. A hierarchy that is mounted
// twice is returned once. A mount whose root is not the hierarchy's root is
// omitted, because its paths differ.
func parseHierarchies(mountinfo string) []cgroupHierarchy {
	var found []cgroupHierarchy
	seen := map[string]bool{}
	mounts, _ := mounttable.Parse(mountinfo) // an unparsable line is not a cgroup mount
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

// cgroupHierarchies are the machine's hierarchies. A container has the same
// path in all of them.
type cgroupHierarchies struct{ all []cgroupHierarchy }

// usedControllers returns the controllers in whose hierarchies a container gets
// a cgroup. In the other hierarchies only runc may create cgroups.
func usedControllers() []string { return []string{"devices", "memory", "cpu", "freezer"} }

// findHierarchy returns the hierarchy with the given controller.
func (c cgroupHierarchies) findHierarchy(controller string) (cgroupHierarchy, bool) {
	i := slices.IndexFunc(c.all, func(h cgroupHierarchy) bool { return slices.Contains(h.controllers, controller) })
	if i < 0 {
		return cgroupHierarchy{}, false
	}
	return c.all[i], true
}

// cgroupDirs returns the folders of the cgroup at path in the used hierarchies.
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

// Minimum values, as in Mesos.
const (
	minMemBytes   = 32 << 20
	minCPUShares  = 2
	sharesPerCPUs = 1024
)

// writeLimits writes the limits of each controller that the machine has.
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

// memoryUsage returns the memory that the cgroup may use and has used, nothing without a memory hierarchy.
func (c cgroupHierarchies) memoryUsage(path string) memorycgroup.Usage {
	h, ok := c.findHierarchy("memory")
	if !ok {
		return memorycgroup.Usage{}
	}
	usage, err := memorycgroup.Open(filepath.Join(h.dir, path)).ReadUsage()
	if err != nil {
		return memorycgroup.Usage{}
	}
	return usage
}

// writeControl writes value to an existing control file in one write.
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

// ignoreMissing returns nil for an error that means a missing file.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
