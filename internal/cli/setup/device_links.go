package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// listUnlinkedNodes returns the driver's nodes without a link in /dev/char. systemd finds devices that
// containers may open through these links.
func (c *collector) listUnlinkedNodes() (nodes []string) {
	paths, _ := filepath.Glob(c.root + "/dev/nvidia*")
	for _, path := range paths {
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
			continue
		}
		link := fmt.Sprintf("%s/dev/char/%d:%d", c.root, unix.Major(st.Rdev), unix.Minor(st.Rdev))
		if _, err := os.Lstat(link); errors.Is(err, fs.ErrNotExist) {
			nodes = append(nodes, strings.TrimPrefix(path, c.root))
		}
	}
	return nodes
}
