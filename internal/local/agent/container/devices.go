package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"mesos-gpu/isolator/rules"
)

// standardNodes returns the device nodes that every program expects in /dev.
func standardNodes() []rules.DeviceNode {
	return []rules.DeviceNode{
		{Name: "null", Major: 1, Minor: 3}, {Name: "zero", Major: 1, Minor: 5}, {Name: "full", Major: 1, Minor: 7},
		{Name: "random", Major: 1, Minor: 8}, {Name: "urandom", Major: 1, Minor: 9}, {Name: "tty", Major: 5, Minor: 0},
	}
}

// deviceLinks returns the symbolic links in /dev and their targets.
func deviceLinks() [][2]string {
	return [][2]string{
		{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
		{"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
	}
}

// mountDev mounts a new file system on dev and creates the standard nodes and
// the given ones. The cgroup's rules decide which of them can be opened.
func mountDev(dev string, nodes []rules.DeviceNode) error {
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID|unix.MS_STRICTATIME, "mode=755,size=64k"); err != nil {
		return fmt.Errorf("mount %s: %w", dev, err)
	}
	for _, sub := range []struct {
		name, kind, options string
		flags               uintptr
	}{
		{"pts", "devpts", "newinstance,ptmxmode=0666,mode=0620,gid=5", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"shm", "tmpfs", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
	} {
		path := filepath.Join(dev, sub.name)
		if err := os.Mkdir(path, 0o755); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
		if err := unix.Mount(sub.kind, path, sub.kind, sub.flags, sub.options); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
	}
	for _, n := range append(standardNodes(), nodes...) {
		if err := MakeNode(dev, n); err != nil {
			return err
		}
	}
	for _, link := range deviceLinks() {
		if err := os.Symlink(link[1], filepath.Join(dev, link[0])); err != nil {
			return fmt.Errorf("link /dev/%s: %w", link[0], err)
		}
	}
	return nil
}

// MakeNode creates a device node below the folder dev, if it does not exist.
func MakeNode(dev string, n rules.DeviceNode) error {
	if !filepath.IsLocal(n.Name) {
		return fmt.Errorf("make node %q: the name leaves /dev", n.Name)
	}
	path := filepath.Join(dev, n.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make node: %w", err)
	}
	err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(n.Major, n.Minor)))
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make node %s (%d:%d): %w", path, n.Major, n.Minor, err)
	}
	// The umask has cleared bits.
	if err := os.Chmod(path, 0o666); err != nil {
		return fmt.Errorf("make node: %w", err)
	}
	return nil
}
