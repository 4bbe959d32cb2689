package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"mesos-gpu/framework/journal"
	"mesos-gpu/internal/filelock"
)

const tempPrefix = "mesos-gpu-local-"

// workDirMode lets tasks that run as other users enter their sandboxes.
const workDirMode = 0o711

// TempWorkDir returns a temporary work directory for a cluster. It reuses the
// directory of a killed cluster, so that the new agent removes the old agent's
// cgroups and mounts; the old jobs are lost. release removes it.
func TempWorkDir() (dir string, release func() error, err error) {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return "", nil, fmt.Errorf("look for old work directories: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		dir := filepath.Join(os.TempDir(), e.Name())
		if lock, err := lockDir(dir, filelock.TryLock); err == nil {
			if err := journal.RemoveBolt(filepath.Join(dir, journalFile)); err != nil {
				lock.Close()
				return "", nil, fmt.Errorf("use work directory %s again: %w", dir, err)
			}
			return dir, releaseWorkDir(dir, lock), nil
		}
	}
	dir, err = os.MkdirTemp("", tempPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("make work directory: %w", err)
	}
	if err := os.Chmod(dir, workDirMode); err != nil {
		return "", nil, fmt.Errorf("make work directory: %w", err)
	}
	lock, err := lockDir(dir, filelock.TryLock)
	if err != nil {
		return "", nil, err
	}
	return dir, releaseWorkDir(dir, lock), nil
}

func releaseWorkDir(dir string, lock *os.File) func() error {
	return func() error {
		defer lock.Close()
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove work directory: %w", err)
		}
		return nil
	}
}

// LockWorkDir creates the work directory dir and locks it against other
// clusters until release.
func LockWorkDir(dir string) (release func() error, err error) {
	if err := os.MkdirAll(dir, workDirMode); err != nil {
		return nil, fmt.Errorf("make work directory: %w", err)
	}
	lock, err := lockDir(dir, filelock.LockAfterKill)
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("work directory %s is in use by another mesos-gpu local: stop it, or choose another by --work-dir", dir)
	}
	if err != nil {
		return nil, err
	}
	return lock.Close, nil
}

// OpenWorkDir lets tasks of the named user enter the work directory dir, in which their sandboxes are. It fails if the machine
// has no such user, or if a parent of dir is closed to them.
func OpenWorkDir(dir, userName string) error {
	account, err := user.Lookup(userName)
	if err != nil {
		return fmt.Errorf("user of tasks without an image: %w", err)
	}
	info, err := os.Stat(dir)
	if err == nil {
		err = os.Chmod(dir, info.Mode().Perm()|0o001)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return fmt.Errorf("open work directory for user %s: %w", userName, err)
	}
	for parent := filepath.Dir(dir); parent != filepath.Dir(parent); parent = filepath.Dir(parent) {
		open, err := canEnter(account, parent)
		if err != nil {
			return fmt.Errorf("open work directory for user %s: %w", userName, err)
		}
		if !open {
			return fmt.Errorf("tasks without an image run as user %s, who cannot enter %s, a parent of their sandboxes: "+
				"choose another directory by --work-dir or TMPDIR, "+
				"or run them as root with --process-user root", userName, parent)
		}
	}
	return nil
}

// canEnter reports whether the mode of a directory lets a user enter it. It ignores access control lists.
func canEnter(account *user.User, dir string) (bool, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return false, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false, fmt.Errorf("no owner of %s is known", dir)
	}
	bit := fs.FileMode(0o001)
	switch {
	case account.Uid == strconv.Itoa(int(owner.Uid)):
		bit = 0o100
	case account.Gid == strconv.Itoa(int(owner.Gid)):
		bit = 0o010
	}
	return info.Mode().Perm()&bit != 0, nil
}

// lockDir locks a folder of this user against other processes by take. The lock
// ends with the process.
func lockDir(dir string, take func(*os.File) error) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open work directory: %w", err)
	}
	err = take(f)
	if err == nil {
		err = checkOwner(f)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock work directory %s: %w", dir, err)
	}
	return f, nil
}

// checkOwner rejects a folder that belongs to another user.
func checkOwner(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return errors.New("it belongs to another user, or others may write to it")
	}
	return nil
}
