// Package mountinfo reads /proc/PID/mountinfo (proc(5)), what a process sees
// mounted. It decides nothing.
package mountinfo

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// MountEntry is one line: the folder Root of the file system Dev ("98:0") is seen
// at Point.
type MountEntry struct {
	Dev, Root, Point string
	ReadOnly         bool
}

// ReadFile opens and parses a file. What is mounted last comes last.
func ReadFile(path string) ([]MountEntry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Parse(f)
}

// Parse reads "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 …".
func Parse(r io.Reader) ([]MountEntry, error) {
	var list []MountEntry
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20) // an overlay's options are long
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 7 || !slices.Contains(fields[6:], "-") {
			return nil, fmt.Errorf("mountinfo: %.80q is no mount", lines.Text())
		}
		list = append(list, MountEntry{
			Dev: fields[2], Root: unescapeOctal(fields[3]), Point: unescapeOctal(fields[4]),
			ReadOnly: slices.Contains(strings.Split(fields[5], ","), "ro"),
		})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read mountinfo: %w", err)
	}
	return list, nil
}

// FindMount finds what is mounted at a path itself; of several, what lies on top.
func FindMount(mounts []MountEntry, path string) (MountEntry, bool) {
	for _, m := range slices.Backward(mounts) {
		if m.Point == path {
			return m, true
		}
	}
	return MountEntry{}, false
}

// LocatePath tells where on which file system an absolute path without symbolic
// links lies.
func LocatePath(mounts []MountEntry, path string) (dev, root string, err error) {
	var best MountEntry
	for _, m := range mounts {
		if IsWithin(path, m.Point) && len(m.Point) >= len(best.Point) {
			best = m
		}
	}
	if best.Point == "" {
		return "", "", fmt.Errorf("no mount in mountinfo holds %s", path)
	}
	return best.Dev, filepath.Join(best.Root, strings.TrimPrefix(path, strings.TrimSuffix(best.Point, "/"))), nil
}

// IsWithin tells whether path is dir or below it.
func IsWithin(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// unescapeOctal undoes the kernel's \040 for blanks and their like.
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
