// Package rotate bounds the files that a task's output goes to: PATH grows to
// a size, then becomes PATH.1, what was PATH.1 becomes PATH.2, and the oldest
// goes. It decides only when and how one file follows another. It never syncs,
// and it leaves their folder by no link: the task may write there, and who
// rotates may be root.
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

// RotationLimits bound one output.
type RotationLimits struct {
	// Bytes is the most that a file holds; 0 is no limit, and no rotation.
	Bytes int64
	// Files is how many there are with the present one, at least 1.
	Files int
}

// stagedSuffix ends the name of a file that is to become the present one.
const stagedSuffix = ".new"

// rotatedFiles is an output's files: NAME, NAME.1 and so on, below a folder.
type rotatedFiles struct {
	*os.Root
	name string
}

// rotatingWriter is what Open returns.
type rotatingWriter struct {
	rotatedFiles
	limits RotationLimits
	file   *os.File
	size   int64
	// midLine says that the file ends within a line.
	midLine bool
}

// Open appends to the file at path, made if need be, and rotates it. Lines
// stay whole where they are no longer than a file and come in one Write. There
// is always a file at path, and what is in one file is in no other: a reader
// that has read the present one to its end finds it again as PATH.1.
//
// A Write that meets a full disk, or cannot rotate, returns how much it wrote
// and the error; later ones try again.
func Open(path string, l RotationLimits) (io.WriteCloser, error) {
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

var errNotRegular = errors.New("it is no regular file")

// openRegular opens a regular file, and waits for nothing: a task may have put a link
// or a pipe there.
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

// fittingBytes is how much of p goes into the present file: all, or as many whole
// lines as there is room for. Only a line that is longer than a file, or has
// been begun, is parted elsewhere.
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

// rotateFile begins a new file. Where that cannot be made the old one stays.
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
	a.file, a.size, a.midLine = next, 0, false
	return nil
}

// Close implements io.Closer.
func (a *rotatingWriter) Close() error { return errors.Join(a.file.Close(), a.Root.Close()) }

// createStaged makes the file that is to be the next one.
func (s rotatedFiles) createStaged() (*os.File, error) {
	if err := s.removeIfExists(s.name + stagedSuffix); err != nil {
		return nil, err
	}
	return s.OpenFile(s.name+stagedSuffix, os.O_APPEND|os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
}

// retireCurrent gives the present file its second name, PATH.1, for the next one to
// take the first.
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

// shiftNumbered moves PATH.1 and those after it on by one, the oldest first, so that
// their order is right at any moment. A gap that a crash left is filled, and
// what is older stays.
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

// finishInterrupted ends a rotation that a crash cut off when the old file had both its
// names: whoever writes next must not write into PATH.1.
func (s rotatedFiles) finishInterrupted() error {
	present, err := s.Lstat(s.name)
	if err != nil {
		return nil // Open makes it, or says why not
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
