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

// clearTimeout bounds how long killed processes may take to go: one in an
// uninterruptible sleep ends when its disk or driver lets it.
const (
	clearTimeout = 10 * time.Second
	clearPause   = 5 * time.Millisecond
)

// clear kills every process in the cgroup at path and below, in every
// hierarchy, and removes it. A cgroup that is not there is clear.
func (c cgroups) clear(path string) error {
	deadline := time.Now().Add(clearTimeout)
	for {
		var errs []error
		for _, h := range c.all {
			dir := filepath.Join(h.dir, path)
			if err := kill(dir); err != nil {
				errs = append(errs, err)
			}
			if err := remove(dir); err != nil {
				errs = append(errs, err)
			}
		}
		if len(errs) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("clear cgroup %s: %w", path, errors.Join(errs...))
		}
		// The kernel tells nobody when the last killed process has left.
		time.Sleep(clearPause)
	}
}

// drain waits until no process is in the cgroup at path or below, or until
// ctx ends.
func (c cgroups) drain(ctx context.Context, path string) {
	for c.populated(path) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(clearPause):
		}
	}
}

func (c cgroups) populated(path string) bool {
	return slices.ContainsFunc(c.all, func(h hierarchy) bool {
		pids, err := processes(filepath.Join(h.dir, path))
		return err == nil && len(pids) > 0 // clear says what is wrong
	})
}

// kill sends SIGKILL to every process in the folder and below.
func kill(dir string) error {
	pids, err := processes(dir)
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGKILL) // ESRCH: gone already
	}
	return err
}

// processes lists those in the folder and below, but for this one.
func processes(dir string) (pids []int, err error) {
	err = walk(dir, func(dir string) error {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return gone(err)
		}
		for field := range strings.FieldsSeq(string(text)) {
			// 0 stands for a process of another PID namespace.
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 && pid != os.Getpid() {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids, err
}

// remove removes the folder and those below it.
func remove(dir string) error {
	return walk(dir, func(dir string) error {
		if err := gone(unix.Rmdir(dir)); err != nil {
			return fmt.Errorf("rmdir %s: %w", dir, err)
		}
		return nil
	})
}

// walk visits the folders below dir, then dir.
func walk(dir string, visit func(dir string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return gone(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := walk(filepath.Join(dir, e.Name()), visit); err != nil {
			return err
		}
	}
	return visit(dir)
}
