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

// volumeMount is a mount of a volume or of a file in it, in the mount namespace of
// a process.
type volumeMount struct {
	PID   int
	Point string
}

// findMounts returns the mounts of what is below a folder, in all mount namespaces
// of processes in proc. It ignores mounts of a folder that contains all volumes,
// since they do not select a version.
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
	known := map[string]bool{} // mount namespaces by number
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
			continue // the process has ended
		}
		if err != nil {
			return nil, fmt.Errorf("%w; only root can read the mounts of other users' processes", err)
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
