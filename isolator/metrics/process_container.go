package metrics

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxCgroups bounds the bytes read of one process's cgroups.
const maxCgroups = 64 << 10

// containerOfProcess returns the container of a process by its cgroups, "" for none. The
// process may have ended, or belong to other software.
func containerOfProcess(proc string, pid int, known func(string) bool) string {
	f, err := os.Open(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return ""
	}
	defer f.Close()
	return containerFromCgroups(f, known)
}

// containerFromCgroups reads lines of "ID:CONTROLLERS:PATH".
func containerFromCgroups(r io.Reader, known func(string) bool) string {
	best := ""
	lines := bufio.NewScanner(io.LimitReader(r, maxCgroups))
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) < 3 {
			continue
		}
		if found := innermostContainer(parts[2], known); len(found) > len(best) {
			best = found
		}
	}
	return best
}
