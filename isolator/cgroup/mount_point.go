package cgroup

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"mesos-gpu/internal/mounttable"
)

// hierarchySpec identifies one of the two kinds of hierarchies in the kernel's files.
type hierarchySpec struct {
	name       string
	fileSystem string
	controller string // in the super block's options and in /proc/PID/cgroup
}

var (
	devicesV1 = hierarchySpec{"cgroup v1 devices hierarchy", "cgroup", "devices"}
	unifiedV2 = hierarchySpec{"cgroup v2 hierarchy", "cgroup2", ""}
)

// FindV1MountPoint reads a /proc/PID/mountinfo file and returns the mount point of the cgroup
// v1 devices hierarchy, the first if it is mounted more than once. It returns ErrNoHierarchy if
// it is not mounted.
func FindV1MountPoint(mountinfo string) (root string, err error) {
	return devicesV1.findMountPoint(mountinfo)
}

// FindV2MountPoint does the same for cgroup v2.
func FindV2MountPoint(mountinfo string) (root string, err error) {
	return unifiedV2.findMountPoint(mountinfo)
}

func (h hierarchySpec) findMountPoint(mountinfo string) (string, error) {
	text, err := os.ReadFile(mountinfo)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", h.name, err)
	}
	if point, ok := h.parseMountInfo(string(text)); ok {
		return point, nil
	}
	return "", fmt.Errorf("find %s in %s: %w", h.name, mountinfo, ErrNoHierarchy)
}

func (h hierarchySpec) parseMountInfo(mountinfo string) (string, bool) {
	mounts, _ := mounttable.Parse(mountinfo) // a line that does not parse is no cgroup mount
	for _, m := range mounts {
		if m.FileSystem == h.fileSystem && m.Root == "/" && (h.controller == "" || slices.Contains(m.SuperOptions, h.controller)) {
			return m.Point, true
		}
	}
	return "", false
}

// readProcessCgroup reads a /proc/PID/cgroup file and returns the process's path.
func (h hierarchySpec) readProcessCgroup(procCgroup string) (string, error) {
	text, err := os.ReadFile(procCgroup)
	if err != nil {
		return "", fmt.Errorf("find device cgroup: %w", err)
	}
	if path, ok := h.parseProcessCgroup(string(text)); ok {
		return path, nil
	}
	return "", fmt.Errorf("find %s in %s: %w", h.name, procCgroup, ErrNoHierarchy)
}

func (h hierarchySpec) parseProcessCgroup(procCgroup string) (string, bool) {
	for line := range strings.Lines(procCgroup) {
		// ID:CONTROLLERS:PATH, where only PATH may hold more colons. Version
		// 2 has the ID 0 and no controllers.
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 || !strings.HasPrefix(fields[2], "/") {
			continue
		}
		if h.controller == "" && fields[0] == "0" && fields[1] == "" ||
			h.controller != "" && slices.Contains(strings.Split(fields[1], ","), h.controller) {
			return fields[2], true
		}
	}
	return "", false
}
