package cgroup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoHierarchy is returned by Self where a process is in no cgroup v1
// devices hierarchy, as on a machine with cgroup v2 alone.
var ErrNoHierarchy = errors.New("no cgroup v1 devices hierarchy")

// Self reads a /proc/PID/cgroup file and gives the process's path in the
// devices hierarchy, "/" for its root.
func Self(procCgroup string) (string, error) {
	text, err := os.ReadFile(procCgroup)
	if err != nil {
		return "", fmt.Errorf("find device cgroup: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		// ID:CONTROLLERS:PATH, where only PATH may hold more colons.
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), "devices") {
			return fields[2], nil
		}
	}
	return "", fmt.Errorf("find device cgroup in %s: %w", procCgroup, ErrNoHierarchy)
}

func rmdir(dir string) error {
	if err := unix.Rmdir(dir); err != nil {
		return os.NewSyscallError("rmdir", err)
	}
	return nil
}
