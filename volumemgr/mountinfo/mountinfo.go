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

// Mount is one line: the folder Root of the file system Dev ("98:0") is seen
// at Point.
type Mount struct {
	Dev, Root, Point string
	ReadOnly         bool
}

// Read opens and parses a file. What is mounted last comes last.
func Read(path string) ([]Mount, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Parse(f)
}

// Parse reads "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 …".
func Parse(r io.Reader) ([]Mount, error) {
	var list []Mount
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20) // an overlay's options are long
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 7 || !slices.Contains(fields[6:], "-") {
			return nil, fmt.Errorf("mountinfo: %.80q is no mount", lines.Text())
		}
		list = append(list, Mount{
			Dev: fields[2], Root: unescape(fields[3]), Point: unescape(fields[4]),
			ReadOnly: slices.Contains(strings.Split(fields[5], ","), "ro"),
		})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read mountinfo: %w", err)
	}
	return list, nil
}

// At finds what is mounted at a path itself; of several, what lies on top.
func At(mounts []Mount, path string) (Mount, bool) {
	for _, m := range slices.Backward(mounts) {
		if m.Point == path {
			return m, true
		}
	}
	return Mount{}, false
}

// Locate tells where on which file system an absolute path without symbolic
// links lies.
func Locate(mounts []Mount, path string) (dev, root string, err error) {
	var best Mount
	for _, m := range mounts {
		if Within(path, m.Point) && len(m.Point) >= len(best.Point) {
			best = m
		}
	}
	if best.Point == "" {
		return "", "", fmt.Errorf("no mount in mountinfo holds %s", path)
	}
	return best.Dev, filepath.Join(best.Root, strings.TrimPrefix(path, strings.TrimSuffix(best.Point, "/"))), nil
}

// Within tells whether path is dir or below it.
func Within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// unescape undoes the kernel's \040 for blanks and their like.
func unescape(s string) string {
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
