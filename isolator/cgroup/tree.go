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

// madeHere is the attribute of the cgroups that Create made, so that whoever
// comes after this process knows them from those of others.
const madeHere = "trusted.mesos_gpu"

// tree is a mounted hierarchy, by its mount point. Paths of cgroups are taken
// below it, whatever ".." they hold.
type tree string

// dir is where a cgroup is, or with names a file of it.
func (t tree) dir(path string, names ...string) string {
	return filepath.Join(append([]string{string(t), filepath.Clean("/" + path)}, names...)...)
}

func (t tree) create(path string) error {
	if _, err := os.Stat(t.dir("")); err != nil {
		return fmt.Errorf("create device cgroup %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(t.dir(path)), 0o755); err != nil {
		return fmt.Errorf("create device cgroup %s: %w", path, err)
	}
	switch err := os.Mkdir(t.dir(path), 0o755); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return fmt.Errorf("create device cgroup %s: %w", path, err)
	}
	err := unix.Setxattr(t.dir(path), madeHere, []byte("1"), 0)
	if err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("mark device cgroup %s: %w", path, err)
	}
	return nil // one without the mark stays behind empty, at worst
}

// made reports whether create made the cgroup.
func (t tree) made(path string) bool {
	_, err := unix.Getxattr(t.dir(path), madeHere, nil)
	return err == nil
}

func (t tree) addProcess(path string, pid int) error {
	return t.write(path, "cgroup.procs", strconv.Itoa(pid))
}

func (t tree) remove(path string) error {
	if t.dir(path) == t.dir("") {
		return errors.New("remove device cgroup: the root of the hierarchy cannot be removed")
	}
	names, err := t.below(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := t.remove(filepath.Join(path, name)); err != nil {
			return err
		}
	}
	// Not os.Remove: on some error it would try to unlink as well.
	if err := unix.Rmdir(t.dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove device cgroup %s: %w", path, err)
	}
	return nil
}

func (t tree) below(path string) ([]string, error) {
	entries, err := os.ReadDir(t.dir(path))
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

// write makes one write(2): the kernel takes one rule or process at a time.
func (t tree) write(path, name, line string) error {
	f, err := os.OpenFile(t.dir(path, name), os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = f.WriteString(line)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("write %q to %s of device cgroup %s: %w", line, name, path, err)
	}
	return nil
}
