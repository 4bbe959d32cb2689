package isolator

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/rules"
)

// Granted tells which GPUs this process may open, by minor number, from its
// own device cgroup: the answer is the same under this project's agent and
// under a stock one with gpu/nvidia. confined is false where nothing keeps
// the process from any GPU; minors is then nil. The error is
// cgroup.ErrNoHierarchy where there is no cgroup v1 to ask.
func Granted() (minors []int, confined bool, err error) {
	return GrantedFrom("/proc")
}

// GrantedFrom is Granted with the place of procfs.
func GrantedFrom(procRoot string) (minors []int, confined bool, err error) {
	root, err := cgroup.Mounted(filepath.Join(procRoot, "self", "mountinfo"))
	if err != nil {
		return nil, false, err
	}
	path, err := cgroup.Self(filepath.Join(procRoot, "self", "cgroup"))
	if err != nil {
		return nil, false, err
	}
	list, err := cgroup.V1{Root: root}.Read(path)
	if err != nil {
		return nil, false, err
	}
	minors, all := rules.GPUMinors(list)
	return minors, !all, nil
}

// majorOf reads a character device's number from a /proc/devices file.
func majorOf(file, name string) (uint32, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("find the device number of %s: %w", name, err)
	}
	characters := false
	for line := range strings.Lines(string(text)) {
		switch fields := strings.Fields(line); {
		case len(fields) != 2:
		case fields[1] == "devices:":
			characters = fields[0] == "Character"
		case characters && fields[1] == name:
			major, err := strconv.ParseUint(fields[0], 10, 32)
			if err != nil || major == 0 {
				return 0, fmt.Errorf("find the device number of %s in %s: %q is none", name, file, fields[0])
			}
			return uint32(major), nil
		}
	}
	return 0, fmt.Errorf("find the device number of %s: no character device in %s has that name", name, file)
}
