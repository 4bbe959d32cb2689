package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
		var errs []error
		for _, h := range c.all {
			dir := filepath.Join(h.dir, path)
			if err := killBelow(dir); err != nil {
				errs = append(errs, err)
			}
			if err := removeFolders(dir); err != nil {
				errs = append(errs, err)
			}
		}
		if len(errs) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("clear cgroup %s: %w", path, errors.Join(errs...))
		}
		// The kernel does not notify when the last killed process has exited.
		time.Sleep(clearPause)
	}
}

// awaitEmpty waits until no process is in the cgroup at path or below, or until
// ctx ends.
func (c cgroupHierarchies) awaitEmpty(ctx context.Context, path string) {
	for c.isPopulated(path) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(clearPause):
		}
	}
}

func (c cgroupHierarchies) isPopulated(path string) bool {
	return slices.ContainsFunc(c.all, func(h cgroupHierarchy) bool {
		pids, err := listProcesses(filepath.Join(h.dir, path))
		return err == nil && len(pids) > 0 // clearCgroup reports the error
	})
}

// killBelow sends SIGKILL to every process in the folder and below.
func killBelow(dir string) error {
	pids, err := listProcesses(dir)
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGKILL) // ESRCH: gone already
	}
	return err
}

// listProcesses returns the processes in the folder and below, except this
// process.
func listProcesses(dir string) (pids []int, err error) {
	err = walkFolders(dir, func(dir string) error {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return ignoreMissing(err)
		}
		for field := range strings.FieldsSeq(string(text)) {
			// 0 is a process of another PID namespace.
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 && pid != os.Getpid() {
				pids = append(pids, pid)
			}
		}
		return nil
	})
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
