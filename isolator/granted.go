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

// Granted tells which GPUs this process may open: the answer is the same under
// this project's agent and under a stock one with gpu/nvidia, with cgroups of
// either version, and needs no privilege.
func Granted() (gpu.Reach, error) {
	return GrantedFrom("/proc", "/dev")
}

// GrantedFrom is Granted with the places of procfs and of the device nodes.
func GrantedFrom(procRoot, devRoot string) (gpu.Reach, error) {
	if reach := listed(procRoot, devRoot); reach.Confined {
		return reach, nil
	}
	return asked(devRoot)
}

// listed reads this process's list of cgroup version 1. Where there is none,
// or it allows everything, a program of version 2 may still confine it.
func listed(procRoot, devRoot string) gpu.Reach {
	root, err := cgroup.Mounted(filepath.Join(procRoot, "self", "mountinfo"))
	if err != nil {
		return gpu.Reach{}
	}
	c := cgroup.V1{Root: root}
	path, err := c.Of(filepath.Join(procRoot, "self", "cgroup"))
	if err != nil {
		return gpu.Reach{}
	}
	list, err := c.Read(path)
	if err != nil {
		return gpu.Reach{}
	}
	minors, all := rules.GPUMinors(list)
	if all {
		return gpu.Reach{}
	}
	reach := gpu.Reach{Confined: true, Minors: minors}
	for _, n := range characters(filepath.Join(devRoot, capsFolder)) {
		want := rules.Rule{Kind: 'c', Major: int64(unix.Major(n.number)), Minor: int64(unix.Minor(n.number)), Access: "r"}
		if minor, ok := n.cap(); ok && rules.Allows(list, want) {
			reach.Caps = append(reach.Caps, minor)
		}
	}
	slices.Sort(reach.Caps)
	return reach
}

// asked asks the kernel by access(2), which opens nothing and yet has the
// device cgroup say what opening would give: EPERM where it is denied. One
// node of /dev that is denied tells that something confines this process. A
// container whose /dev has no such node looks like one that nothing confines.
func asked(devRoot string) (gpu.Reach, error) {
	if _, err := os.ReadDir(devRoot); err != nil {
		return gpu.Reach{}, fmt.Errorf("ask for GPUs: %w", err)
	}
	var reach gpu.Reach
	for _, n := range characters(devRoot) {
		err := unix.Faccessat(unix.AT_FDCWD, n.path, unix.R_OK|unix.W_OK, 0)
		minor, isGPU := n.gpu()
		switch {
		case errors.Is(err, unix.EPERM):
			reach.Confined = true
		case !isGPU:
		case err != nil:
			return gpu.Reach{}, fmt.Errorf("ask for GPU %s: %w: its mode keeps this user from it", n.path, err)
		default:
			reach.Minors = append(reach.Minors, minor)
		}
	}
	if !reach.Confined {
		return gpu.Reach{}, nil
	}
	for _, n := range characters(filepath.Join(devRoot, capsFolder)) {
		if minor, ok := n.cap(); ok && unix.Faccessat(unix.AT_FDCWD, n.path, unix.R_OK, 0) == nil {
			reach.Caps = append(reach.Caps, minor)
		}
	}
	slices.Sort(reach.Minors)
	slices.Sort(reach.Caps)
	return reach, nil
}

// capsFolder is where the driver makes the capability nodes of MIG devices.
const capsFolder = "nvidia-caps"

// character is a node of a folder.
type character struct {
	path   string
	number uint64
}

// characters lists the character devices of a folder; none where it is not
// there. For what is mounted over an entry, its type is that of what is below.
func characters(dir string) []character {
	entries, _ := os.ReadDir(dir)
	var list []character
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		var st unix.Stat_t
		if e.Type()&os.ModeSymlink == 0 && unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR {
			list = append(list, character{path, st.Rdev})
		}
	}
	return list
}

// suffix is the N of a name that begins with prefix.
func (c character) suffix(prefix string) (n int, ok bool) {
	digits, found := strings.CutPrefix(filepath.Base(c.path), prefix)
	number, err := strconv.ParseUint(digits, 10, 16)
	return int(number), found && err == nil && uint32(number) == unix.Minor(c.number)
}

// gpu tells the N of a node /dev/nvidiaN.
func (c character) gpu() (minor int, ok bool) {
	minor, ok = c.suffix("nvidia")
	return minor, ok && minor < rules.ModesetMinor && unix.Major(c.number) == rules.NvidiaMajor
}

// cap tells the N of a node nvidia-capN of a MIG instance.
func (c character) cap() (minor int, ok bool) {
	minor, ok = c.suffix("nvidia-cap")
	return minor, ok && minor >= rules.FirstCap
}
