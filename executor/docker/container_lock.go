package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/docker/docker/client"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/filelock"
)

// containerLock is the lock file of one container. The file has the
// container's name, and the executor keeps it locked. It exists before the
// container and is removed after it; the kernel releases the lock when the
// process ends. So a file without a lock names an orphan container. A
// container without a file in this agent's folder belongs to another agent or
// a user, and is never touched.
type containerLock struct{ file *os.File }

// lockContainer creates and locks the file, and writes the engine's address
// into it. A concurrent RemoveOrphans may remove the file before it is locked;
// then it is created again. The container's name is new, so a file that exists
// was made by another user, who could remove the container by it. It is
// replaced; only root can do that.
func lockContainer(dir, name, engine string) (*containerLock, error) {
	if err := makeSharedDir(dir); err != nil {
		return nil, fmt.Errorf("claim container %s: %w", name, err)
	}
	path := filepath.Join(dir, name)
	_ = os.Remove(path)
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
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

// makeSharedDir creates a folder in which executors of all users can create
// their own files.
func makeSharedDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o777|fs.ModeSticky)
}

// removeLock removes the file. The container must not exist any more.
func (c *containerLock) removeLock() {
	if c == nil {
		return
	}
	os.Remove(c.file.Name())
	c.file.Close()
}

// unlock leaves the file for the next RemoveOrphans, because the container may
// still exist.
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

// RemoveOrphans removes the containers of executors that ended without
// removing them (SIGKILL, a crash, an unreachable engine). dir is
// EngineRuntime.LocksDir. Only containers with a lock file there are removed,
// and only if no executor has the lock. Without lock files it does not connect
// to the engine. Several calls may run at the same time; each returns after
// the containers that it found are removed.
func RemoveOrphans(ctx context.Context, newClient func() (*client.Client, error), dir string, log logrus.FieldLogger) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find containers without an executor: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), namePrefix) {
			errs = append(errs, removeOrphan(ctx, newClient, filepath.Join(dir, e.Name()), log))
		}
	}
	return errors.Join(errs...)
}

// errNoLockFile means that a file is not the lock file of an executor, or that
// only root may read it.
var errNoLockFile = errors.New("not a readable regular file")

// openLockFile opens a lock file for reading. Every user of the machine can
// make files of any type in the folder: it neither blocks on them nor follows
// links. For those it returns errNoLockFile.
func openLockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) || errors.Is(err, fs.ErrPermission) { // a link, a socket
		return nil, fmt.Errorf("%w: %w", errNoLockFile, err)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s", errNoLockFile, path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// removeOrphan removes one container unless its executor has the lock. It
// takes a shared lock, so that a concurrent call also sees the container as an
// orphan and waits for its removal.
func removeOrphan(ctx context.Context, newClient func() (*client.Client, error), path string, log logrus.FieldLogger) error {
	name := filepath.Base(path)
	file, err := openLockFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, errNoLockFile):
		log.WithError(err).Warn("ignored a file in the folder of container locks")
		return nil
	case err != nil:
		return fmt.Errorf("check for an executor of container %s: %w", name, err)
	}
	defer file.Close()
	if err := filelock.TryRLock(file); errors.Is(err, filelock.ErrLocked) {
		return nil
	} else if err != nil {
		return fmt.Errorf("check for an executor of container %s: lock %s: %w", name, path, err)
	}
	engine, err := newClient()
	if err != nil {
		return fmt.Errorf("docker engine: %w", err)
	}
	defer engine.Close()
	owner, err := io.ReadAll(io.LimitReader(file, int64(len(engine.DaemonHost()))+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the engine of container %s: %w", name, err)
	case len(owner) > 0 && string(owner) != engine.DaemonHost():
		return nil // it belongs to another engine
	case len(owner) > 0: // otherwise the executor died before it created one
		log.WithField("container", name).Info("removing a container whose executor is gone")
		if err := forceRemove(ctx, engine, name); err != nil {
			return fmt.Errorf("its executor is gone: %w; then rm %s", err, path)
		}
	}
	// Only root can remove another user's file: the next call as root does.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("remove the lock of container %s: %w", name, err)
	}
	return nil
}
