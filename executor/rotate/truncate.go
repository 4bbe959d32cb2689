package rotate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxGrowthFactor is how many times Limits.Bytes a file may hold that has grown beyond
// them between two looks: what is older goes. The size is the task's to
// choose, who may make a hole of any.
const maxGrowthFactor = 4

// Truncate rotates a file that another process holds and appends to: what is
// in it is copied to NAME.1 and then taken from it. It does nothing to a file
// of at most Limits.Bytes. The writer must have opened it to append (O_APPEND):
// another goes on at its old place, behind a hole. name is a path below
// folder; no link on it leads out of that. Copying ends with ctx, and leaves
// the file as it was.
//
// On ext4 and XFS, with a limit of a file system's block or more, no byte is
// lost or doubled of up to four times Limits.Bytes: what was copied, a number
// of whole blocks, is cut off at the file's head, and what came meanwhile
// stays; a line may be parted there. Elsewhere (tmpfs, btrfs) the file is
// emptied: lost is what comes between the copy's last read and that, and the
// line of that moment may be torn.
func Truncate(ctx context.Context, folder, name string, l RotationLimits) error {
	if l.Bytes <= 0 {
		return nil
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := (rotatedFiles{root, name}).truncateFile(ctx, l); err != nil {
		return fmt.Errorf("rotate %s: %w", name, err)
	}
	return nil
}

func (s rotatedFiles) truncateFile(ctx context.Context, l RotationLimits) error {
	file, info, err := s.openRegular(os.O_RDWR)
	if err != nil {
		return err
	}
	defer file.Close()
	if info.Size() <= l.Bytes {
		return nil
	}
	if l.Files <= 1 {
		return file.Truncate(0)
	}
	if err := s.shiftNumbered(l.Files); err != nil {
		return err
	}
	next, err := s.createStaged()
	if err != nil {
		return err
	}
	defer next.Close()
	if err := s.moveNewest(ctx, file, next, l.Bytes); err != nil {
		return errors.Join(err, s.removeIfExists(s.name+stagedSuffix))
	}
	return nil
}

// moveNewest takes the newest of what is in a file into another, which gets its name
// first: a crash doubles bytes rather than losing them.
func (s rotatedFiles) moveNewest(ctx context.Context, from, to *os.File, limit int64) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &stat); err != nil {
		return err
	}
	// Whole blocks, and not up to the end, which cannot be cut off so.
	whole := (stat.Size - 1) / int64(stat.Blksize) * int64(stat.Blksize)
	lost, err := skipOldest(from, to, whole, limit)
	if err != nil {
		return err
	}
	if _, err := io.CopyN(to, contextReader{ctx, from}, whole-lost); err != nil {
		return err
	}
	if err := s.Rename(s.name+stagedSuffix, numberedName(s.name, 1)); err != nil {
		return err
	}
	if unix.Fallocate(int(from.Fd()), unix.FALLOC_FL_COLLAPSE_RANGE, 0, whole) == nil {
		return nil
	}
	// No such call on this file system. A writer that is faster than the copy
	// must not keep it going for ever.
	if _, err := io.Copy(to, contextReader{ctx, io.LimitReader(from, stat.Size-lost)}); err != nil {
		return err
	}
	return from.Truncate(0)
}

// skipOldest leaves out, and tells readers so, what is too much of a file's head.
func skipOldest(from, to *os.File, size, limit int64) (lost int64, err error) {
	if size/maxGrowthFactor <= limit {
		return 0, nil
	}
	lost = size - maxGrowthFactor*limit
	if _, err := fmt.Fprintf(to, "[mesos-gpu: %d bytes of output were lost here]\n", lost); err != nil {
		return 0, err
	}
	_, err = from.Seek(lost, io.SeekStart)
	return lost, err
}

// contextReader reads while ctx lasts.
type contextReader struct {
	ctx  context.Context
	from io.Reader
}

// Read implements io.Reader.
func (u contextReader) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.from.Read(p)
}
