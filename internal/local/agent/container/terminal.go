package container

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// OpenTerminal opens a new pseudo terminal. It is one of the container's own
// /dev/pts, if the container has one, so that ttyname finds it there.
func (c *RunningContainer) OpenTerminal() (*os.File, error) {
	if !c.engine.fenced {
		return os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	}
	mounts, err := c.spaces.copyFiles(1)
	defer CloseFiles(mounts...)
	if err != nil {
		return nil, err
	}
	var terminal *os.File
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine, and its mount namespace with it
		err := enterMounts(int(mounts[0].Fd()))
		if err == nil {
			terminal, err = c.openOwnTerminal()
		}
		done <- err
	}()
	err = <-done
	return terminal, err
}

// openOwnTerminal opens a terminal from the mount namespace of the container's
// first process. The process that runc started has another one.
func (c *RunningContainer) openOwnTerminal() (*os.File, error) {
	path := "/dev/pts/ptmx"
	if c.oci != nil {
		pid, err := os.ReadFile(c.oci.pidFile())
		if err != nil {
			return nil, err
		}
		path = filepath.Join("/proc", string(pid), "root", path)
	}
	// A file that does not block can be closed while it is read.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	// The container's processes may have mounted another file there.
	var system unix.Statfs_t
	err = unix.Fstatfs(fd, &system)
	if err == nil && system.Type != unix.DEVPTS_SUPER_MAGIC {
		err = fmt.Errorf("%s is not in a devpts", path)
	}
	if err != nil {
		_ = unix.Close(fd) // nothing was written
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}
