package rotate

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Truncate rotates a file that another process holds and appends to: what is
// in it is copied to PATH.1 and then taken from it. It does nothing to a file
// of at most Limits.Bytes. The writer must have opened it to append (O_APPEND):
// another goes on at its old place, behind a hole.
//
// On ext4 and XFS no byte is lost or doubled: what was copied, a number of
// whole blocks, is cut off at the file's head, and what came meanwhile stays; a
// line may be parted there. Elsewhere (tmpfs, btrfs) the file is emptied: lost
// is what comes between the copy's last read and that, and the line of that
// moment may be torn.
func Truncate(path string, l Limits) error {
	if l.Bytes <= 0 {
		return nil
	}
	info, err := os.Lstat(path)
	if err == nil && info.Mode().IsRegular() && info.Size() <= l.Bytes {
		return nil
	}
	if err := truncate(path, l); err != nil {
		return fmt.Errorf("rotate %s: %w", path, err)
	}
	return nil
}

func truncate(path string, l Limits) error {
	file, err := open(path, os.O_RDWR)
	if err != nil {
		return err
	}
	defer file.Close()
	if l.Files <= 1 {
		return file.Truncate(0)
	}
	if err := shift(path, l.Files); err != nil {
		return err
	}
	next, err := stage(path)
	if err != nil {
		return err
	}
	defer next.Close()
	if err := move(file, next, numbered(path, 1)); err != nil {
		return errors.Join(err, remove(path+staged))
	}
	return nil
}

// move takes what is in a file into another, which gets that name first: a
// crash doubles bytes rather than losing them.
func move(from, to *os.File, name string) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &stat); err != nil {
		return err
	}
	// Whole blocks, and not up to the end, which cannot be cut off so.
	whole := (stat.Size - 1) / stat.Blksize * stat.Blksize
	if _, err := io.CopyN(to, from, whole); err != nil {
		return err
	}
	if err := os.Rename(to.Name(), name); err != nil {
		return err
	}
	if unix.Fallocate(int(from.Fd()), unix.FALLOC_FL_COLLAPSE_RANGE, 0, whole) == nil {
		return nil
	}
	// No such call on this file system. A writer that is faster than the copy
	// must not keep it going for ever.
	if _, err := io.Copy(to, io.LimitReader(from, stat.Size)); err != nil {
		return err
	}
	return from.Truncate(0)
}
