package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// ownerAttribute is the extended attribute of cgroups that CreateCgroup created. Later
// processes recognize them by it.
const ownerAttribute = "trusted.mesos_gpu"

// cgroupTree is a mounted hierarchy, by its mount point. Paths of cgroups never leave it, even
// if they contain "..".
type cgroupTree string

// cgroupPath returns the path of a cgroup's folder, or with names that of a file in it.
func (t cgroupTree) cgroupPath(path string, names ...string) string {
	return filepath.Join(append([]string{string(t), filepath.Clean("/" + path)}, names...)...)
}

func (t cgroupTree) createCgroup(path string) error {
	if _, err := os.Stat(t.cgroupPath("")); err != nil {
		return fmt.Errorf("create device cgroup %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(t.cgroupPath(path)), 0o755); err != nil {
		return fmt.Errorf("create device cgroup %s: %w", path, err)
	}
	switch err := os.Mkdir(t.cgroupPath(path), 0o755); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return fmt.Errorf("create device cgroup %s: %w", path, err)
	}
	err := unix.Setxattr(t.cgroupPath(path), ownerAttribute, []byte("1"), 0)
	if err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("mark device cgroup %s: %w", path, err)
	}
	return nil // without the mark an empty cgroup may remain, at worst
}

// isOwned reports whether createCgroup created the cgroup.
func (t cgroupTree) isOwned(path string) bool {
	_, err := unix.Getxattr(t.cgroupPath(path), ownerAttribute, nil)
	return err == nil
}

func (t cgroupTree) addProcess(path string, pid int) error {
	return t.writeFile(path, "cgroup.procs", strconv.Itoa(pid))
}

func (t cgroupTree) removeCgroup(path string) error {
	if t.cgroupPath(path) == t.cgroupPath("") {
		return errors.New("remove device cgroup: the root of the hierarchy cannot be removed")
	}
	names, err := t.listChildCgroups(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := t.removeCgroup(filepath.Join(path, name)); err != nil {
			return err
		}
	}
	// os.Remove would also try to unlink after some errors.
	if err := unix.Rmdir(t.cgroupPath(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove device cgroup %s: %w", path, err)
	}
	return nil
}

func (t cgroupTree) listChildCgroups(path string) ([]string, error) {
	entries, err := os.ReadDir(t.cgroupPath(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list device cgroups below %s: %w", path, err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// writeFile makes a single write(2): the kernel accepts one rule or process at a time.
func (t cgroupTree) writeFile(path, name, line string) error {
	f, err := os.OpenFile(t.cgroupPath(path, name), os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = f.WriteString(line)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("write %q to %s of device cgroup %s: %w", line, name, path, err)
	}
	return nil
}
