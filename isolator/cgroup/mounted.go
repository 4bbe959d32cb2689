package cgroup

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Mounted reads a /proc/PID/mountinfo file and gives the mount point of the
// cgroup v1 devices hierarchy, the first where it is mounted more than once.
// Returns ErrNoHierarchy if it is mounted nowhere.
func Mounted(mountinfo string) (root string, err error) {
	text, err := os.ReadFile(mountinfo)
	if err != nil {
		return "", fmt.Errorf("find devices hierarchy: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		// ID PARENT DEV ROOT POINT OPTIONS… - TYPE SOURCE SUPEROPTIONS
		mount, super, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		left, right := strings.Fields(mount), strings.Fields(super)
		if !ok || len(left) < 5 || len(right) < 3 || right[0] != "cgroup" || left[3] != "/" {
			continue
		}
		if slices.Contains(strings.Split(right[2], ","), "devices") {
			return unescape(left[4]), nil
		}
	}
	return "", fmt.Errorf("find devices hierarchy in %s: %w", mountinfo, ErrNoHierarchy)
}

// unescape undoes the kernel's octal forms of white space and backslash.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}
