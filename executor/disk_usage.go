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

// maxFolderDepth bounds the depth of nested folders: each level holds a file
// descriptor while the levels below it are counted.
const maxFolderDepth = 256

// errUnmeasurable means that the task prevents its files from being counted.
var errUnmeasurable = errors.New("the task prevents it")

// measureFolder returns the bytes that a folder takes on its file system. It
// counts blocks, so holes of sparse files are free, and counts a file with
// several names once. It follows no links, enters no mounts and stops above
// limit. It returns what it counted together with the errors. The error is
// errUnmeasurable if the task is the cause: folders that are nested too deep,
// or that their owner, who is also this process's user, cannot read.
func measureFolder(ctx context.Context, folder string, enough int64) (int64, error) {
	f, err := os.OpenFile(folder, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, fmt.Errorf("measure sandbox: %w", err)
	}
	w := &diskWalker{limit: enough, seenInodes: map[uint64]bool{}}
	root, err := w.statEntry(f, "")
	if err == nil {
		w.mount = mountIDOf(root)
		w.countBlocks(root)
		err = errors.Join(w.walkFolder(ctx, f, 1), w.unmeasurable)
	}
	_ = f.Close() // the file was only read
	if err != nil {
		err = fmt.Errorf("measure sandbox: %w", err)
	}
	return w.bytes, err
}

// diskWalker adds up the blocks of a file tree.
type diskWalker struct {
	bytes        int64
	limit        int64
	unmeasurable error // the first errUnmeasurable, which ends the walk
	mount        mountID
	seenInodes   map[uint64]bool // inodes with several names that were counted
}

// mountID identifies the mount that a file is on. A bind mount has the device
// of its file system and differs only in its id.
type mountID struct {
	major, minor uint32
	id           uint64
}

func mountIDOf(s *unix.Statx_t) mountID { return mountID{s.Dev_major, s.Dev_minor, s.Mnt_id} }

// maxReadNames bounds how many directory entries are read at once.
const maxReadNames = 1024

// walkFolder counts the content of an open folder. The task changes its
// sandbox at the same time, so a missing entry is no error.
func (w *diskWalker) walkFolder(ctx context.Context, folder *os.File, depth int) error {
	var errs []error
	for {
		names, err := folder.Readdirnames(maxReadNames)
		for _, name := range names {
			if w.bytes > w.limit || w.unmeasurable != nil {
				return nil
			}
			if err := w.visitEntry(ctx, folder, name, depth); err != nil && !errors.Is(err, fs.ErrNotExist) && len(errs) < 3 {
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

func (w *diskWalker) visitEntry(ctx context.Context, folder *os.File, name string, depth int) error {
	s, err := w.statEntry(folder, name)
	if err != nil || mountIDOf(s) != w.mount {
		return err
	}
	w.countBlocks(s)
	if s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	if depth == maxFolderDepth {
		w.unmeasurable = fmt.Errorf("%w: %d nested folders, at most %d are allowed", errUnmeasurable, depth+1, maxFolderDepth)
		return nil
	}
	fd, err := unix.Openat(int(folder.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrPermission) && int(s.Uid) == os.Geteuid() {
		w.unmeasurable = fmt.Errorf("%w: folder %q may not be read", errUnmeasurable, name)
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	below := os.NewFile(uintptr(fd), name)
	defer below.Close()
	return w.walkFolder(ctx, below, depth+1)
}

// statEntry returns the status of a folder's entry, or of the folder itself if
// name is empty.
func (w *diskWalker) statEntry(folder *os.File, name string) (*unix.Statx_t, error) {
	var s unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_EMPTY_PATH
	const want = unix.STATX_TYPE | unix.STATX_UID | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS | unix.STATX_MNT_ID
	if err := unix.Statx(int(folder.Fd()), name, flags, want, &s); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return &s, nil
}

func (w *diskWalker) countBlocks(s *unix.Statx_t) {
	if s.Nlink > 1 && s.Mode&unix.S_IFMT != unix.S_IFDIR {
		if w.seenInodes[s.Ino] {
			return
		}
		w.seenInodes[s.Ino] = true
	}
	w.bytes += int64(s.Blocks) * 512
}
