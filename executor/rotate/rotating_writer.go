// Package rotate limits the size of a task's output files. PATH grows to a
// limit and then becomes PATH.1, PATH.1 becomes PATH.2, and the oldest file is
// removed. The package never syncs. It follows no link out of the folder,
// because the task can write there and the rotating process may be root.
package rotate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// RotationLimits limits one output.
type RotationLimits struct {
	// Bytes is the maximum size of a file. 0 means no limit and no rotation.
	Bytes int64
	// Files is the number of files including the current one, at least 1.
	Files int
}

// stagedSuffix ends the name of a file that will become the current one.
const stagedSuffix = ".new"

// rotatedFiles are the files of one output: NAME, NAME.1 and so on in a
// folder.
type rotatedFiles struct {
	*os.Root
	name string
}

// rotatingWriter is the result of Open.
type rotatingWriter struct {
	rotatedFiles
	limits RotationLimits
	// file is the current file, open for appending, and size its length. A
	// rotation replaces both.
	file *os.File
	size int64
	// midLine is set if the current file ends within a line.
	midLine bool
	// rotated is the total size of the files before the current one.
	rotated int64
}

// Writer writes to an output with rotation.
type Writer interface {
	io.WriteCloser
	// Positions returns the number of bytes before the current file and before its end,
	// counted from the file that Open found.
	Positions() (start, end int64)
}

// Positions implements Writer.
func (a *rotatingWriter) Positions() (start, end int64) { return a.rotated, a.rotated + a.size }

// Open appends to the file at path and rotates it. It creates the file if
// needed. A line of one Write stays in one file if it is not longer than a
// file. There is always a file at path, and no content is in two files: a
// reader that has read the current file to its end finds it again as PATH.1.
//
// If the disk is full or the rotation fails, Write returns the number of bytes
// written and the error. Later calls try again.
func Open(path string, l RotationLimits) (Writer, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	a := &rotatingWriter{rotatedFiles: rotatedFiles{root, filepath.Base(path)}, limits: l}
	if err := a.openCurrent(); err != nil {
		root.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return a, nil
}

func (a *rotatingWriter) openCurrent() error {
	if a.limits.Bytes > 0 {
		if err := a.finishInterrupted(); err != nil {
			return fmt.Errorf("finish its rotation: %w", err)
		}
	}
	file, info, err := a.openRegular(os.O_APPEND | os.O_CREATE | os.O_WRONLY)
	if err != nil {
		return err
	}
	a.file, a.size = file, info.Size()
	return nil
}

var errNotRegular = errors.New("not a regular file")

// openRegular opens a regular file without blocking: the task may have put a
// link or a pipe there.
func (s rotatedFiles) openRegular(flags int) (*os.File, fs.FileInfo, error) {
	if info, err := s.Lstat(s.name); err == nil && !info.Mode().IsRegular() {
		return nil, nil, errNotRegular
	}
	file, err := s.OpenFile(s.name, flags|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// Write implements io.Writer.
func (a *rotatingWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := a.fittingBytes(p)
		if part == 0 {
			if err := a.rotateFile(); err != nil {
				return n, fmt.Errorf("rotate %s: %w", a.name, err)
			}
			continue
		}
		wrote, err := a.file.Write(p[:part])
		if wrote > 0 {
			a.size, a.midLine = a.size+int64(wrote), p[wrote-1] != '\n'
		}
		if n += wrote; err != nil {
			return n, err
		}
		p = p[part:]
	}
	return n, nil
}

// fittingBytes returns how much of p goes into the current file: all of it, or
// as many whole lines as fit. A line is split only if it is longer than a
// file, or if a part of it is already written.
func (a *rotatingWriter) fittingBytes(p []byte) int {
	room := a.limits.Bytes - a.size
	if a.limits.Bytes <= 0 || int64(len(p)) <= room {
		return len(p)
	}
	if room <= 0 {
		return 0
	}
	if end := bytes.LastIndexByte(p[:room], '\n'); end >= 0 {
		return end + 1
	}
	if a.size > 0 && !a.midLine {
		return 0
	}
	return int(room)
}

// rotateFile starts a new file. If it cannot be created, the old one stays.
func (a *rotatingWriter) rotateFile() error {
	next, err := a.createStaged()
	if err != nil {
		return err
	}
	if err = a.retireCurrent(a.limits.Files); err == nil {
		err = a.Rename(a.name+stagedSuffix, a.name)
	}
	if err != nil {
		next.Close()
		return err
	}
	a.file.Close()
	a.rotated += a.size
	a.file, a.size, a.midLine = next, 0, false
	return nil
}

// Close implements io.Closer.
func (a *rotatingWriter) Close() error { return errors.Join(a.file.Close(), a.Root.Close()) }

// createStaged creates the next file under its temporary name.
func (s rotatedFiles) createStaged() (*os.File, error) {
	if err := s.removeIfExists(s.name + stagedSuffix); err != nil {
		return nil, err
	}
	return s.OpenFile(s.name+stagedSuffix, os.O_APPEND|os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
}

// retireCurrent adds the name PATH.1 to the current file. The next file then
// takes over PATH.
func (s rotatedFiles) retireCurrent(files int) error {
	if files <= 1 {
		return nil
	}
	if err := s.shiftNumbered(files); err != nil {
		return err
	}
	if err := s.Link(s.name, numberedName(s.name, 1)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // the task removed it
}

// shiftNumbered renames PATH.1 to PATH.2 and so on, the oldest first, so that
// the order is right at any moment. If a crash left a gap, it is filled and
// older files stay.
func (s rotatedFiles) shiftNumbered(files int) error {
	last := 1
	for last < files-1 {
		if _, err := s.Lstat(numberedName(s.name, last)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		last++
	}
	if last == files-1 {
		if err := s.removeIfExists(numberedName(s.name, last)); err != nil {
			return err
		}
	}
	for ; last > 1; last-- {
		if err := s.Rename(numberedName(s.name, last-1), numberedName(s.name, last)); err != nil {
			return err
		}
	}
	return nil
}

// finishInterrupted completes a rotation that a crash interrupted while the
// old file had both names. Otherwise the next writer would append to PATH.1.
func (s rotatedFiles) finishInterrupted() error {
	present, err := s.Lstat(s.name)
	if err != nil {
		return nil // Open creates it or returns the error
	}
	if old, err := s.Lstat(numberedName(s.name, 1)); err != nil || !os.SameFile(present, old) {
		return nil
	}
	next, err := s.createStaged()
	if err != nil {
		return err
	}
	next.Close()
	return s.Rename(s.name+stagedSuffix, s.name)
}

func numberedName(name string, n int) string { return name + "." + strconv.Itoa(n) }

func (s rotatedFiles) removeIfExists(name string) error {
	if err := s.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
