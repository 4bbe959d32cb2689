package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/docker/docker/client"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/filelock"
)

// containerLock marks a container as a living executor's: a file named like the
// container, which the executor keeps locked. It is there before the
// container is and goes after it, and the kernel drops the lock with the
// process. So a file without a lock names a container that nobody owns, and
// a container without a file in this agent's folder is none of ours: another
// agent's, a cluster's beside it, or a person's.
type containerLock struct{ file *os.File }

// lockContainer makes and locks the file, which names the engine. A sweep may take
// a file away between its making and its locking: then it is made again.
func lockContainer(dir, name, engine string) (*containerLock, error) {
	if err := makeSharedDir(dir); err != nil {
		return nil, fmt.Errorf("claim container %s: %w", name, err)
	}
	for {
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, fmt.Errorf("claim container %s: %w", name, err)
		}
		err = filelock.Lock(file)
		if err == nil && !isLinked(file) {
			file.Close()
			continue
		}
		if err == nil {
			_, err = file.WriteString(engine)
		}
		if err != nil {
			file.Close()
			return nil, fmt.Errorf("claim container %s: %w", name, err)
		}
		return &containerLock{file}, nil
	}
}

// makeSharedDir is for executors of all users, each with files of its own.
func makeSharedDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o777|fs.ModeSticky)
}

// removeLock says that the container is gone.
func (c *containerLock) removeLock() {
	if c == nil {
		return
	}
	os.Remove(c.file.Name())
	c.file.Close()
}

// unlock leaves the file to a sweep: the container may be there still.
func (c *containerLock) unlock() {
	if c != nil {
		c.file.Close()
	}
}

func isLinked(file *os.File) bool {
	info, err := file.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink > 0
}

// RemoveOrphans removes the containers of executors that ended without removing them
// (SIGKILL, a crash, an engine that was away). Dir is Runtime.Claims: only
// containers claimed there are touched, and none whose executor lives.
// Without such containers the engine is not asked. Sweeps may run at the same
// time; each returns once what it found is gone.
func RemoveOrphans(ctx context.Context, newClient func() (*client.Client, error), dir string, log logrus.FieldLogger) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for containers without an executor: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), namePrefix) {
			errs = append(errs, removeOrphan(ctx, newClient, filepath.Join(dir, e.Name()), log))
		}
	}
	return errors.Join(errs...)
}

// removeOrphan removes one container, unless its executor holds the lock. The lock
// is shared so that a second sweep sees this one's container as abandoned,
// too, and waits for its end.
func removeOrphan(ctx context.Context, newClient func() (*client.Client, error), path string, log logrus.FieldLogger) error {
	name := filepath.Base(path)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the executor of container %s: %w", name, err)
	}
	defer file.Close()
	if err := filelock.TryRLock(file); errors.Is(err, filelock.ErrLocked) {
		return nil
	} else if err != nil {
		return fmt.Errorf("look for the executor of container %s: lock %s: %w", name, path, err)
	}
	engine, err := newClient()
	if err != nil {
		return fmt.Errorf("docker engine: %w", err)
	}
	defer engine.Close()
	owner, err := os.ReadFile(path)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look for the engine of container %s: %w", name, err)
	case len(owner) > 0 && string(owner) != engine.DaemonHost():
		return nil // another engine's
	case len(owner) > 0: // else its executor died before it made one
		log.WithField("container", name).Info("removing a container whose executor is gone")
		if err := forceRemove(ctx, engine, name); err != nil {
			return fmt.Errorf("its executor is gone: %w; then rm %s", err, path)
		}
	}
	// Another user's file may stay: root's next sweep takes it.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("forget container %s: %w", name, err)
	}
	return nil
}
