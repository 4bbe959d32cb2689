package rotate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxGrowthFactor limits the bytes that Truncate keeps, in multiples of
// RotationLimits.Bytes; older content is dropped. The task controls the size,
// which may be a huge hole.
const maxGrowthFactor = 4

// Truncate rotates a file that another process has open for appending. It
// copies the content to NAME.1 and removes it from the file. A file of at most
// RotationLimits.Bytes is left alone. The writer must use O_APPEND; otherwise
// it continues at its old offset, behind a hole. name is a path below folder;
// no link in it may lead out of folder. If ctx ends, the copy stops and the
// file is unchanged.
//
// On ext4 and XFS, with a limit of at least one block, up to four times
// RotationLimits.Bytes are kept without losing or duplicating a byte: a whole
// number of blocks is copied and then cut off at the head of the file, and
// concurrent output stays. A line may be split there. On other file systems
// (tmpfs, btrfs) the file is emptied: output between the last read and that
// moment is lost, and one line may be torn.
//
// removed is the number of bytes that were removed from the file; those that were lost
// meanwhile do not count.
func Truncate(ctx context.Context, folder, name string, l RotationLimits) (removed int64, err error) {
	if l.Bytes <= 0 {
		return 0, nil
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	if removed, err = (rotatedFiles{root, name}).truncateFile(ctx, l); err != nil {
		return removed, fmt.Errorf("rotate %s: %w", name, err)
	}
	return removed, nil
}

func (s rotatedFiles) truncateFile(ctx context.Context, l RotationLimits) (removed int64, err error) {
	file, info, err := s.openRegular(os.O_RDWR)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if info.Size() <= l.Bytes {
		return 0, nil
	}
	if l.Files <= 1 {
		return info.Size(), file.Truncate(0)
	}
	if err := s.shiftNumbered(l.Files); err != nil {
		return 0, err
	}
	next, err := s.createStaged()
	if err != nil {
		return 0, err
	}
	defer next.Close()
	if removed, err = s.moveNewest(ctx, file, next, l.Bytes); err != nil {
		return removed, errors.Join(err, s.removeIfExists(s.name+stagedSuffix))
	}
	return removed, nil
}

// moveNewest copies the newest content into the new file and renames it before
// it cuts the old file: a crash duplicates bytes rather than losing them.
func (s rotatedFiles) moveNewest(ctx context.Context, from, to *os.File, limit int64) (removed int64, err error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &stat); err != nil {
		return 0, err
	}
	// A whole number of blocks. The last block cannot be collapsed.
	whole := (stat.Size - 1) / int64(stat.Blksize) * int64(stat.Blksize)
	lost, err := skipOldest(from, to, whole, limit)
	if err != nil {
		return 0, err
	}
	if _, err := io.CopyN(to, contextReader{ctx, from}, whole-lost); err != nil {
		return 0, err
	}
	if err := s.Rename(s.name+stagedSuffix, numberedName(s.name, 1)); err != nil {
		return 0, err
	}
	if unix.Fallocate(int(from.Fd()), unix.FALLOC_FL_COLLAPSE_RANGE, 0, whole) == nil {
		return whole, nil
	}
	// This file system cannot collapse ranges. The limit keeps a writer that
	// is faster than the copy from prolonging it without end.
	rest, err := io.Copy(to, contextReader{ctx, io.LimitReader(from, stat.Size-lost)})
	if err != nil {
		return 0, err
	}
	return whole + rest, from.Truncate(0)
}

// skipOldest skips what exceeds the limit and writes a note about it.
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

// contextReader reads until ctx ends.
type contextReader struct {
	ctx  context.Context
	from io.Reader
}

// Read implements io.Reader.
func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}
