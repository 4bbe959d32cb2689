package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// usage is the space that a folder takes on its file system, in bytes: blocks,
// so that a file's holes count nothing, and a file with several names once. It
// follows no links and enters no mounts. What it cannot read is an error
// beside what it could.
func usage(ctx context.Context, folder string) (int64, error) {
	f, err := os.OpenFile(folder, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, fmt.Errorf("measure sandbox: %w", err)
	}
	w := &walker{seen: map[uint64]bool{}}
	root, err := w.look(f, "")
	if err == nil {
		w.mount = mountOf(root)
		w.count(root)
		err = w.walk(ctx, f)
	}
	_ = f.Close() // it was only read
	if err != nil {
		err = fmt.Errorf("measure sandbox: %w", err)
	}
	return w.bytes, err
}

// walker adds up.
type walker struct {
	bytes int64
	mount mount
	seen  map[uint64]bool // inodes with several names
}

// mount is where a file is mounted: bind mounts differ from what they are
// mounted in by their number alone.
type mount struct {
	major, minor uint32
	id           uint64
}

func mountOf(s *unix.Statx_t) mount { return mount{s.Dev_major, s.Dev_minor, s.Mnt_id} }

// batch bounds how many names are read at once.
const batch = 1024

// walk counts what is in an open folder. A task changes its sandbox meanwhile:
// what has gone is not an error.
func (w *walker) walk(ctx context.Context, folder *os.File) error {
	var errs []error
	for {
		names, err := folder.Readdirnames(batch)
		for _, name := range names {
			if err := w.entry(ctx, folder, name); err != nil && !errors.Is(err, fs.ErrNotExist) && len(errs) < 3 {
				errs = append(errs, err)
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			return errors.Join(errs...)
		case err != nil:
			return errors.Join(append(errs, err)...)
		}
	}
}

func (w *walker) entry(ctx context.Context, folder *os.File, name string) error {
	s, err := w.look(folder, name)
	if err != nil || mountOf(s) != w.mount {
		return err
	}
	w.count(s)
	if s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	fd, err := unix.Openat(int(folder.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	below := os.NewFile(uintptr(fd), name)
	defer below.Close()
	return w.walk(ctx, below)
}

// look describes an entry of a folder, or with no name the folder.
func (w *walker) look(folder *os.File, name string) (*unix.Statx_t, error) {
	var s unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_EMPTY_PATH
	const want = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS | unix.STATX_MNT_ID
	if err := unix.Statx(int(folder.Fd()), name, flags, want, &s); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return &s, nil
}

func (w *walker) count(s *unix.Statx_t) {
	if s.Nlink > 1 && s.Mode&unix.S_IFMT != unix.S_IFDIR {
		if w.seen[s.Ino] {
			return
		}
		w.seen[s.Ino] = true
	}
	w.bytes += int64(s.Blocks) * 512
}
