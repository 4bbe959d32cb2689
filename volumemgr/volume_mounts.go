package volumemgr

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"mesos-gpu/internal/mounttable"
)

// volumeMount is a mount of a volume, or of something in one, and a process that
// sees it.
type volumeMount struct {
	PID   int
	Point string
}

// findMounts finds who mounts what lies below a folder, in any mount namespace
// that a process of proc lives in. A mount of a folder above the volumes does
// not count: it takes no version in particular.
func findMounts(proc, dir string) ([]volumeMount, error) {
	own, err := mounttable.ReadFile(filepath.Join(proc, "self/mountinfo"))
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return nil, err
	}
	dev, root, err := mounttable.LocatePath(own, dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	var found []volumeMount
	known := map[string]bool{} // namespaces, by the number in their link
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		space, _ := os.Readlink(filepath.Join(proc, e.Name(), "ns/mnt"))
		if space != "" && known[space] {
			continue
		}
		mounts, err := mounttable.ReadFile(filepath.Join(proc, e.Name(), "mountinfo"))
		if isAnyError(err, fs.ErrNotExist, unix.ESRCH, unix.EINVAL) {
			continue // it ended meanwhile, or has ended and waits for its parent
		}
		if err != nil {
			return nil, fmt.Errorf("%w; only root sees what other users' processes mount", err)
		}
		known[space] = true
		for _, m := range mounts {
			if m.Device == dev && mounttable.IsWithin(m.Root, root) {
				found = append(found, volumeMount{pid, m.Point})
			}
		}
	}
	return found, nil
}
