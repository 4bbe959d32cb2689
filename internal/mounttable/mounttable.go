// Package mounttable reads /proc/PID/mountinfo (proc(5)): what a process sees
// mounted. It mounts nothing and decides nothing. Unlike github.com/moby/sys/mountinfo,
// it returns the other mounts of a table that has a malformed or very long line.
package mounttable

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Mount is one line: the folder Root of file system Device ("98:0") is visible
// at Point.
type Mount struct {
	Device, Root, Point string
	ReadOnly            bool
	// FileSystem is the type, "ext4" or "cgroup". SuperOptions are the options
	// of the file system itself, which all of its mounts share.
	FileSystem   string
	SuperOptions []string
}

// ReadFile parses a file. A mount that hides another one comes after it.
func ReadFile(path string) ([]Mount, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(string(text))
}

// Parse reads lines such as "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3
// /dev/root rw". If lines are malformed, it returns the mounts of all others
// and an error about the first malformed one.
func Parse(text string) (list []Mount, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		m, ok := parseLine(line)
		if ok {
			list = append(list, m)
		} else if err == nil {
			err = fmt.Errorf("mountinfo: %.80q is no mount", line)
		}
	}
	return list, err
}

// parseLine splits at the separator, which has a varying number of optional
// fields before it. The kernel escapes blanks within a field.
func parseLine(line string) (Mount, bool) {
	mount, super, ok := strings.Cut(line, " - ")
	left, right := strings.Split(mount, " "), strings.Split(super, " ")
	if !ok || len(left) < 6 || len(right) < 3 {
		return Mount{}, false
	}
	return Mount{
		Device: left[2], Root: unescapeOctal(left[3]), Point: unescapeOctal(left[4]),
		ReadOnly:   slices.Contains(strings.Split(left[5], ","), "ro"),
		FileSystem: right[0], SuperOptions: strings.Split(right[2], ","),
	}, true
}

// FindMount returns what is mounted at path itself; of several mounts there,
// the topmost one.
func FindMount(mounts []Mount, path string) (Mount, bool) {
	for _, m := range slices.Backward(mounts) {
		if m.Point == path {
			return m, true
		}
	}
	return Mount{}, false
}

// LocatePath returns the file system that an absolute path without symbolic
// links is on, and the path's place within that file system.
func LocatePath(mounts []Mount, path string) (device, root string, err error) {
	var best Mount
	for _, m := range mounts {
		if IsWithin(path, m.Point) && len(m.Point) >= len(best.Point) {
			best = m
		}
	}
	if best.Point == "" {
		return "", "", fmt.Errorf("no mount in mountinfo holds %s", path)
	}
	return best.Device, filepath.Join(best.Root, strings.TrimPrefix(path, strings.TrimSuffix(best.Point, "/"))), nil
}

// IsWithin reports whether path is dir or below it.
func IsWithin(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// unescapeOctal replaces the kernel's escapes, such as \040 for a blank.
func unescapeOctal(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
