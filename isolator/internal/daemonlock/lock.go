// Package daemonlock keeps a second daemon away from a folder. It decides nothing
// about what the daemon stores there.
package daemonlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mesos-gpu/internal/filelock"
)

// LockFolder creates the folder and locks the file with that name in it, until
// the caller calls release or the process ends. If another process has the
// lock, LockFolder returns at once with an error that names the process. The
// file is never removed: two daemons could then lock two files of one name.
func LockFolder(dir, name string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := lockAndWritePID(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

func lockAndWritePID(f *os.File) error {
	err := filelock.TryLock(f)
	if errors.Is(err, filelock.ErrLocked) {
		holder := make([]byte, 32)
		n, _ := f.Read(holder)
		return fmt.Errorf("locked by another daemon (process %s), and an agent needs exactly one: stop it or choose another folder",
			strings.TrimSpace(string(holder[:n])))
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return err
}
