package isolator

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/rules"
)

// DetectDeviceAccess returns the GPUs that this process may open. It works with this project's
// agent and with Mesos's gpu/nvidia isolator, with cgroups of either version, and needs no
// privilege.
func DetectDeviceAccess() (gpu.DeviceAccess, error) {
	return DetectDeviceAccessAt("/proc", "/dev")
}

// DetectDeviceAccessAt is DetectDeviceAccess with the paths of procfs and of the device nodes.
func DetectDeviceAccessAt(procRoot, devRoot string) (gpu.DeviceAccess, error) {
	if reach := accessFromV1List(procRoot, devRoot); reach.Confined {
		return reach, nil
	}
	return probeDeviceNodes(devRoot)
}

// accessFromV1List reads this process's device list of cgroup version 1. Without one, or if
// it allows everything, the result is unconfined; a program of version 2 may still confine the
// process.
func accessFromV1List(procRoot, devRoot string) gpu.DeviceAccess {
	root, err := cgroup.FindV1MountPoint(filepath.Join(procRoot, "self", "mountinfo"))
	if err != nil {
		return gpu.DeviceAccess{}
	}
	c := cgroup.V1{Root: root}
	path, err := c.ProcessCgroup(filepath.Join(procRoot, "self", "cgroup"))
	if err != nil {
		return gpu.DeviceAccess{}
	}
	list, err := c.ReadRules(path)
	if err != nil {
		return gpu.DeviceAccess{}
	}
	minors, all := rules.GPUMinors(list)
	if all {
		return gpu.DeviceAccess{}
	}
	reach := gpu.DeviceAccess{Confined: true, Minors: minors}
	for _, n := range listCharDevices(filepath.Join(devRoot, capsDir)) {
		want := rules.DeviceRule{Kind: 'c', Major: int64(unix.Major(n.rdev)), Minor: int64(unix.Minor(n.rdev)), Access: "r"}
		if minor, ok := n.capMinor(); ok && rules.Allows(list, want) {
			reach.Caps = append(reach.Caps, minor)
		}
	}
	slices.Sort(reach.Caps)
	return reach
}

// probeDeviceNodes calls access(2) for each device node. It opens nothing, but the device
// cgroup answers as if it did: EPERM for a denied device. One denied node in /dev shows that a
// cgroup confines this process. A container whose /dev contains only allowed nodes looks
// unconfined.
func probeDeviceNodes(devRoot string) (gpu.DeviceAccess, error) {
	if _, err := os.ReadDir(devRoot); err != nil {
		return gpu.DeviceAccess{}, fmt.Errorf("list device nodes: %w", err)
	}
	var reach gpu.DeviceAccess
	for _, n := range listCharDevices(devRoot) {
		err := unix.Faccessat(unix.AT_FDCWD, n.path, unix.R_OK|unix.W_OK, 0)
		minor, isGPU := n.gpuMinor()
		switch {
		case errors.Is(err, unix.EPERM):
			reach.Confined = true
		case !isGPU:
		case err != nil:
			return gpu.DeviceAccess{}, fmt.Errorf("check access to GPU %s: %w: the node's mode denies it to this user", n.path, err)
		default:
			reach.Minors = append(reach.Minors, minor)
		}
	}
	if !reach.Confined {
		return gpu.DeviceAccess{}, nil
	}
	for _, n := range listCharDevices(filepath.Join(devRoot, capsDir)) {
		if minor, ok := n.capMinor(); ok && unix.Faccessat(unix.AT_FDCWD, n.path, unix.R_OK, 0) == nil {
			reach.Caps = append(reach.Caps, minor)
		}
	}
	slices.Sort(reach.Minors)
	slices.Sort(reach.Caps)
	return reach, nil
}

// capsDir is the folder with the capability nodes of MIG devices.
const capsDir = "nvidia-caps"

// charDevice is a character device node.
type charDevice struct {
	path string
	rdev uint64
}

// listCharDevices returns the character devices in a folder, none if it does not exist. A
// directory entry has the type of the file below a mount, so each node is examined.
func listCharDevices(dir string) []charDevice {
	entries, _ := os.ReadDir(dir)
	var list []charDevice
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		var st unix.Stat_t
		if e.Type()&os.ModeSymlink == 0 && unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR {
			list = append(list, charDevice{path, st.Rdev})
		}
	}
	return list
}

// trailingNumber returns the N of a node named prefixN, if N is the node's minor number.
func (c charDevice) trailingNumber(prefix string) (n int, ok bool) {
	digits, found := strings.CutPrefix(filepath.Base(c.path), prefix)
	number, err := strconv.ParseUint(digits, 10, 16)
	return int(number), found && err == nil && uint32(number) == unix.Minor(c.rdev)
}

// gpuMinor returns the N of a node /dev/nvidiaN.
func (c charDevice) gpuMinor() (minor int, ok bool) {
	minor, ok = c.trailingNumber("nvidia")
	return minor, ok && minor < rules.ModesetMinor && unix.Major(c.rdev) == rules.NvidiaMajor
}

// capMinor returns the N of a node nvidia-capN of a MIG instance.
func (c charDevice) capMinor() (minor int, ok bool) {
	minor, ok = c.trailingNumber("nvidia-cap")
	return minor, ok && minor >= rules.FirstMIGCap
}
