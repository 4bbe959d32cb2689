package volumemgr

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNoExec is returned by Create if the store is on a file system mounted noexec,
// from which programs cannot run and libraries cannot be loaded.
var ErrNoExec = errors.New("is on a file system mounted noexec, and no container could load the libraries; mount it exec, or choose another folder")

// checkExecutable returns ErrNoExec before anything is written.
func (s Store) checkExecutable() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(s.Dir, &fs); err != nil {
		return fmt.Errorf("check the file system of %s: %w", s.Dir, err)
	}
	if fs.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s %w", s.Dir, ErrNoExec)
	}
	return nil
}

// addRemedy adds the remedy to errors that an operator can correct.
func (s Store) addRemedy(err error, d InstalledDriver) error {
	switch {
	case isAnyError(err, unix.ENOSPC, unix.EDQUOT):
		var total int64
		for _, f := range d.Files {
			total += f.Size
		}
		return fmt.Errorf("%w; the driver's files have %s, %s has %s free: make room, or choose a folder on the driver's own file system",
			err, formatMiB(total), s.Dir, formatMiB(s.freeBytes()))
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w; choose a folder on a file system that can be written", err)
	case isAnyError(err, unix.EACCES, unix.EPERM):
		return fmt.Errorf("%w; run as root, or choose a folder that user %d may write", err, os.Geteuid())
	}
	return err
}

// freeBytes returns the space that this user has left where the store is or will
// be.
func (s Store) freeBytes() int64 {
	var fs unix.Statfs_t
	for dir := s.Dir; ; dir = filepath.Dir(dir) {
		if err := unix.Statfs(dir, &fs); err == nil {
			return int64(fs.Bavail) * fs.Bsize
		}
		if dir == filepath.Dir(dir) {
			return 0
		}
	}
}

func formatMiB(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
