package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// namespaceFiles are open namespaces of a container's first process: mount
// namespace, then PID namespace. Open files stay valid while the process exits,
// for containers that join or enter it.
type namespaceFiles struct {
	mu    sync.Mutex
	files []*os.File
}

// openNamespaces opens the namespaces of the process.
func (n *namespaceFiles) openNamespaces(pid int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range []string{"mnt", "pid"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
		if err != nil {
			return err
		}
		n.files = append(n.files, f)
	}
	return nil
}

// adoptThreadMounts replaces the mount namespace by the one that a thread of
// the process created for itself. A container that joined another one has such
// a thread.
func (n *namespaceFiles) adoptThreadMounts(pid int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.files) == 0 {
		return nil // it has exited
	}
	born, err := n.files[0].Stat()
	if err != nil {
		return err
	}
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/ns/mnt", pid)) // the pattern is well-formed
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			continue // the thread has exited
		}
		if made, err := f.Stat(); err == nil && !os.SameFile(born, made) {
			_ = n.files[0].Close() // nothing was written
			n.files[0] = f
			return nil
		}
		_ = f.Close() // nothing was written
	}
	return nil
}

func (n *namespaceFiles) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	CloseFiles(n.files...)
	n.files = nil
}

// copyFiles duplicates the first count files. The caller closes the returned
// files, on error too.
func (n *namespaceFiles) copyFiles(count int) (files []*os.File, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.files) < count {
		return nil, errors.New("the container to join has ended")
	}
	for _, f := range n.files[:count] {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return files, fmt.Errorf("share namespace: %w", err)
		}
		files = append(files, os.NewFile(uintptr(fd), f.Name()))
	}
	return files, nil
}
