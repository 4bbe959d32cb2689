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

// deepest is how many folders may lie one in another: each takes a descriptor
// while those below it are counted.
const deepest = 256

// errHidden says that a task keeps its files from being counted.
var errHidden = errors.New("the task keeps it from being measured")

// usage is the space that a folder takes on its file system, in bytes: blocks,
// so that a file's holes count nothing, and a file with several names once. It
// follows no links, enters no mounts and stops counting once it has found more
// than enough. What it cannot read is an error beside what it could, and
// errHidden where that is the task's doing: folders nested too deep, or closed
// to the user that owns them and this program is.
func usage(ctx context.Context, folder string, enough int64) (int64, error) {
	f, err := os.OpenFile(folder, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, fmt.Errorf("measure sandbox: %w", err)
	}
	w := &walker{enough: enough, seen: map[uint64]bool{}}
	root, err := w.look(f, "")
	if err == nil {
		w.mount = mountOf(root)
		w.count(root)
		err = errors.Join(w.walk(ctx, f, 1), w.hidden)
	}
	_ = f.Close() // it was only read
	if err != nil {
		err = fmt.Errorf("measure sandbox: %w", err)
	}
	return w.bytes, err
}

// walker adds up.
type walker struct {
	bytes  int64
	enough int64
	hidden error // the first errHidden
	mount  mount
	seen   map[uint64]bool // inodes with several names
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
func (w *walker) walk(ctx context.Context, folder *os.File, depth int) error {
	var errs []error
	for {
		names, err := folder.Readdirnames(batch)
		for _, name := range names {
			if w.bytes > w.enough || w.hidden != nil {
				return nil
			}
			if err := w.entry(ctx, folder, name, depth); err != nil && !errors.Is(err, fs.ErrNotExist) && len(errs) < 3 {
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

func (w *walker) entry(ctx context.Context, folder *os.File, name string, depth int) error {
	s, err := w.look(folder, name)
	if err != nil || mountOf(s) != w.mount {
		return err
	}
	w.count(s)
	if s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	if depth == deepest {
		w.hidden = fmt.Errorf("%w: %d folders lie one in another, %d may", errHidden, depth+1, deepest)
		return nil
	}
	fd, err := unix.Openat(int(folder.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrPermission) && int(s.Uid) == os.Geteuid() {
		w.hidden = fmt.Errorf("%w: folder %q may not be read", errHidden, name)
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	below := os.NewFile(uintptr(fd), name)
	defer below.Close()
	return w.walk(ctx, below, depth+1)
}

// look describes an entry of a folder, or with no name the folder.
func (w *walker) look(folder *os.File, name string) (*unix.Statx_t, error) {
	var s unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_EMPTY_PATH
	const want = unix.STATX_TYPE | unix.STATX_UID | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS | unix.STATX_MNT_ID
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
