// Package rotate bounds the files that a task's output goes to: PATH grows to
// a size, then becomes PATH.1, what was PATH.1 becomes PATH.2, and the oldest
// goes. It decides only when and how one file follows another. It never waits
// for a disk, and it follows no link: the files lie in a folder that the task
// may write, and who rotates them may be root.
package rotate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// Limits bound one output.
type Limits struct {
	// Bytes is the most that a file holds; 0 is no limit, and no rotation.
	Bytes int64
	// Files is how many there are with the present one, at least 1.
	Files int
}

// staged ends the name of a file that is to become the present one.
const staged = ".new"

// appender is what Open returns.
type appender struct {
	path   string
	limits Limits
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
func Open(path string, l Limits) (io.WriteCloser, error) {
	if l.Bytes > 0 {
		if err := settle(path); err != nil {
			return nil, fmt.Errorf("open %s: finish its rotation: %w", path, err)
		}
	}
	a := &appender{path: path, limits: l}
	var err error
	if a.file, err = open(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY); err != nil {
		return nil, err
	}
	info, err := a.file.Stat()
	if err != nil {
		a.file.Close()
		return nil, err
	}
	a.size = info.Size()
	return a, nil
}

// open opens a regular file, and waits for nothing: a task may have put a link
// or a pipe there.
func open(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, errors.Join(err, fmt.Errorf("open %s: it is no regular file", path))
	}
	return file, nil
}

// Write implements io.Writer.
func (a *appender) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := a.fitting(p)
		if part == 0 {
			if err := a.rotate(); err != nil {
				return n, fmt.Errorf("rotate %s: %w", a.path, err)
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

// fitting is how much of p goes into the present file: all, or as many whole
// lines as there is room for. Only a line that is longer than a file, or has
// been begun, is parted elsewhere.
func (a *appender) fitting(p []byte) int {
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

// rotate begins a new file. Where that cannot be made the old one stays.
func (a *appender) rotate() error {
	next, err := stage(a.path)
	if err != nil {
		return err
	}
	if err = retire(a.path, a.limits.Files); err == nil {
		err = os.Rename(a.path+staged, a.path)
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
func (a *appender) Close() error { return a.file.Close() }

// stage makes the file that is to be the next one.
func stage(path string) (*os.File, error) {
	if err := remove(path + staged); err != nil {
		return nil, err
	}
	return os.OpenFile(path+staged, os.O_APPEND|os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
}

// retire gives the present file its second name, PATH.1, for the next one to
// take the first.
func retire(path string, files int) error {
	if files <= 1 {
		return nil
	}
	if err := shift(path, files); err != nil {
		return err
	}
	if err := os.Link(path, numbered(path, 1)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // the task removed it
}

// shift moves PATH.1 and those after it on by one, the oldest first, so that
// their order is right at any moment. A gap that a crash left is filled, and
// what is older stays.
func shift(path string, files int) error {
	last := 1
	for last < files-1 {
		if _, err := os.Lstat(numbered(path, last)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		last++
	}
	if last == files-1 {
		if err := remove(numbered(path, last)); err != nil {
			return err
		}
	}
	for ; last > 1; last-- {
		if err := os.Rename(numbered(path, last-1), numbered(path, last)); err != nil {
			return err
		}
	}
	return nil
}

// settle ends a rotation that a crash cut off when the old file had both its
// names: whoever writes next must not write into PATH.1.
func settle(path string) error {
	present, err := os.Lstat(path)
	if err != nil {
		return nil // Open makes it, or says why not
	}
	if old, err := os.Lstat(numbered(path, 1)); err != nil || !os.SameFile(present, old) {
		return nil
	}
	next, err := stage(path)
	if err != nil {
		return err
	}
	next.Close()
	return os.Rename(path+staged, path)
}

func numbered(path string, n int) string { return path + "." + strconv.Itoa(n) }

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
