package daemon

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"mesos-gpu/isolator/socket"
)

// processFinder finds processes of containers in procfs.
type processFinder struct {
	// procRoot is the path of procfs, cgroupsRoot the agent's --cgroups_root.
	procRoot, cgroupsRoot string
}

// startTicks returns when a process started, in the kernel's clock ticks since the boot; 0 if it
// does not exist.
func (p processFinder) startTicks(pid int) uint64 {
	if pid <= 0 {
		return 0
	}
	stat, err := os.ReadFile(filepath.Join(p.procRoot, strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	// The name of the program, in parentheses, may contain blanks and parentheses.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const state, start = 0, 19 // fields after the name
	if len(fields) <= start || fields[state] == "Z" || fields[state] == "X" {
		return 0
	}
	ticks, _ := strconv.ParseUint(fields[start], 10, 64)
	return ticks
}

// findContainers returns the outermost containers that have a process in their cgroup, each with
// one of them.
func (p processFinder) findContainers() map[string]int {
	entries, _ := os.ReadDir(p.procRoot) // without procfs there are no processes to see
	found := map[string]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if id, err := socket.FindContainer(p.procRoot, p.cgroupsRoot, pid); err == nil && id != "" {
			found[id] = pid
		}
	}
	return found
}
