package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clearTimeout limits the wait for killed processes to exit. A process in an
// uninterruptible sleep exits only when its disk or driver returns.
const (
	clearTimeout = 10 * time.Second
	clearPause   = 5 * time.Millisecond
)

// clearCgroup kills every process in the cgroup at path and below, in every
// hierarchy, and removes the cgroup. A missing cgroup is not an error.
func (c cgroupHierarchies) clearCgroup(path string) error {
	deadline := time.Now().Add(clearTimeout)
	for {
		pids, err := c.listProcesses(path)
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // ESRCH: gone already
		}
		for _, h := range c.all {
			err = errors.Join(err, removeFolders(filepath.Join(h.dir, path)))
		}
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("clear cgroup %s: %w", path, err)
		}
		// The kernel does not notify when the last killed process has exited.
		time.Sleep(clearPause)
	}
}

// awaitEmpty waits until no process is in the cgroup at path or below, or until
// ctx ends.
func (c cgroupHierarchies) awaitEmpty(ctx context.Context, path string) {
	for {
		pids, _ := c.listProcesses(path) // clearCgroup reports the error
		if len(pids) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(clearPause):
		}
	}
}

// listProcesses returns the processes in the cgroup at path and below, in every
// hierarchy, except this process.
func (c cgroupHierarchies) listProcesses(path string) (pids []int, err error) {
	for _, h := range c.all {
		err = errors.Join(err, walkFolders(filepath.Join(h.dir, path), func(dir string) error {
			listed, err := readPIDs(filepath.Join(dir, "cgroup.procs"))
			pids = append(pids, listed...)
			return ignoreMissing(err)
		}))
	}
	return pids, err
}

// readPIDs reads a file of pids and returns those of other processes. It leaves
// out 0, which is a process of another PID namespace.
func readPIDs(file string) (pids []int, err error) {
	text, err := os.ReadFile(file)
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// removeFolders removes the folder and those below it.
func removeFolders(dir string) error {
	return walkFolders(dir, func(dir string) error {
		if err := ignoreMissing(unix.Rmdir(dir)); err != nil {
			return fmt.Errorf("rmdir %s: %w", dir, err)
		}
		return nil
	})
}

// walkFolders visits the folders below dir, then dir.
func walkFolders(dir string, visit func(dir string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := walkFolders(filepath.Join(dir, e.Name()), visit); err != nil {
			return err
		}
	}
	return visit(dir)
}
