package api

import (
	"bytes"
	"errors"
	"fmt"
)

const (
	// TailSize bounds LogTail: by so much of what precedes it a place in a log
	// is known again when its file has got another name.
	TailSize = 128
	// maxLogFiles bounds the search for a log's older files.
	maxLogFiles = 100
	// findTries is how often a place is looked for before it counts as gone,
	// and busyTries how often files may change places under a read.
	findTries, busyTries = 3, 30
)

var (
	// errBusy: files change places; a moment later they have.
	errBusy = errors.New("the log's files are changing places")
	// errMissed: the file that was read is gone, and with it what followed.
	errMissed = errors.New("output was rotated away before it was read")
	// errNext: what follows is of another file than the answer.
	errNext = errors.New("another file follows")
)

// place is where a reader is in a log.
type place struct {
	file   int // 0 is the present one, n is the one that ends in .n
	offset uint64
	tail   []byte // what precedes it in its file, as far as that is known
}

// logFiles reads a log through the rotation of its files. An agent names no
// file but by its path, so each read looks whether the bytes before it are
// still those that were read: output that repeats itself to the byte over a
// whole file may be taken for another's.
type logFiles struct {
	// read returns ErrNoLog, wrapped, where there is no such file.
	read   func(file string, offset, length uint64) (data []byte, size uint64, err error)
	stream string
	// parts keeps what is of two files apart, by errNext, once told is set:
	// the reader knows that what comes begins at from.
	parts, told bool
	from        uint64

	at      place
	fresh   bool   // nothing was read yet: begin with the oldest
	last    uint64 // or, if not 0, so many bytes before the end
	pending bool   // the file at the place is complete, the next one is to come
	tries   int    // since the last byte
}

// next returns what follows, nil where there is nothing yet.
func (l *logFiles) next() ([]byte, error) {
	if l.fresh && l.last > 0 {
		if err := l.skip(); err != nil {
			return nil, err
		}
	}
	if l.fresh {
		return l.begin()
	}
	data, same, err := l.more()
	if err == nil && !same {
		if err = l.find(); err == nil {
			data, same, err = l.more()
		}
	}
	switch {
	case err != nil:
		return nil, err
	case !same:
		return nil, l.busy()
	case len(data) > 0 && l.parts && l.told && l.pending:
		return nil, errNext // it was not complete after all
	case len(data) > 0:
		l.from, l.pending = l.at.offset, false
		l.arrive(l.at.file, l.at.offset+uint64(len(data)), append(l.at.tail, data...))
		return data, nil
	case l.at.file == 0:
		l.from, l.pending = l.at.offset, false
		return nil, nil
	case l.parts && l.told && !l.pending:
		return nil, errNext
	}
	return l.newer()
}

// more reads on in the file at the place; same tells whether it still is that
// file.
func (l *logFiles) more() (data []byte, same bool, err error) {
	n := uint64(len(l.at.tail))
	data, _, err = l.read(l.name(l.at.file), l.at.offset-n, n+logChunk)
	if l.at.file > 0 && errors.Is(err, ErrNoLog) {
		return nil, false, nil
	}
	if err != nil || !bytes.HasPrefix(data, l.at.tail) {
		return nil, false, err
	}
	return data[n:], true, nil
}

// newer begins the file after the one that was read to its end. While that is
// where it was, so is its successor.
func (l *logFiles) newer() ([]byte, error) {
	l.from, l.pending = 0, true
	file := l.at.file - 1
	data, _, err := l.read(l.name(file), 0, logChunk)
	if errors.Is(err, ErrNoLog) {
		return nil, l.busy()
	}
	if err != nil {
		return nil, err
	}
	rest, same, err := l.more()
	if err != nil {
		return nil, err
	}
	if !same || len(rest) > 0 {
		return nil, l.busy()
	}
	if len(data) > 0 || file > 0 {
		l.arrive(file, uint64(len(data)), data)
	}
	return data, nil
}

// begin reads the oldest file. It was the oldest if none is older after that.
func (l *logFiles) begin() ([]byte, error) {
	oldest := 0
	for ; oldest < maxLogFiles; oldest++ {
		if there, err := l.exists(oldest + 1); err != nil {
			return nil, err
		} else if !there {
			break
		}
	}
	l.from = 0
	data, _, err := l.read(l.name(oldest), 0, logChunk)
	if oldest > 0 && errors.Is(err, ErrNoLog) {
		return nil, l.busy()
	}
	if err != nil {
		return nil, err
	}
	if there, err := l.exists(oldest + 1); err != nil {
		return nil, err
	} else if there {
		return nil, l.busy()
	}
	if len(data) > 0 || oldest > 0 {
		l.arrive(oldest, uint64(len(data)), data)
	}
	return data, nil
}

// skip goes to where the last bytes of the present file begin.
func (l *logFiles) skip() error {
	_, size, err := l.read(l.stream, 0, 1)
	if err != nil {
		return err
	}
	l.at, l.fresh = place{offset: size - min(l.last, size)}, false
	return nil
}

// find looks for the place among the older files. A file whose head was moved
// out, rather than all of it, keeps the rest: the place is then as far behind
// as the older file is long. One that was emptied has lost what came last.
func (l *logFiles) find() error {
	p, n := l.at, uint64(len(l.at.tail))
	for file, holes := p.file+1, 0; file <= maxLogFiles && holes < 2; file++ {
		data, size, err := l.read(l.name(file), p.offset-n, n)
		switch {
		case errors.Is(err, ErrNoLog):
			holes++
			continue
		case err != nil:
			return err
		case bytes.Equal(data, p.tail):
			l.at.file = file
			return nil
		case size >= p.offset:
			continue
		}
		behind := p.offset - size
		known := min(n, behind)
		head, rest := p.tail[:n-known], p.tail[n-known:]
		if ends, err := l.ends(file, size, head); err != nil || !ends {
			if err != nil {
				return err
			}
			continue
		}
		kept, _, err := l.read(l.name(file-1), behind-known, known)
		if err != nil && !errors.Is(err, ErrNoLog) {
			return err
		}
		switch {
		case bytes.Equal(kept, rest):
			l.at = place{file - 1, behind, rest}
			return nil
		case len(head) > 0:
			l.at = place{file, size, head}
			return nil
		}
	}
	if l.tries++; l.tries < findTries {
		return errBusy
	}
	return errMissed
}

// ends reports whether a file of that size ends in the text.
func (l *logFiles) ends(file int, size uint64, text []byte) (bool, error) {
	n := uint64(len(text))
	if n == 0 || n > size {
		return n == 0, nil
	}
	data, _, err := l.read(l.name(file), size-n, n)
	if errors.Is(err, ErrNoLog) {
		return false, nil
	}
	return bytes.Equal(data, text), err
}

// arrive is at an offset of a file that has the text before it.
func (l *logFiles) arrive(file int, offset uint64, text []byte) {
	tail := bytes.Clone(text[max(0, len(text)-TailSize):])
	l.at, l.fresh, l.pending, l.tries = place{file, offset, tail}, false, false, 0
}

func (l *logFiles) busy() error {
	if l.tries++; l.tries < busyTries {
		return errBusy
	}
	return fmt.Errorf("read %s: its files change places faster than they are read", l.stream)
}

func (l *logFiles) exists(file int) (bool, error) {
	_, _, err := l.read(l.name(file), 0, 1)
	if errors.Is(err, ErrNoLog) {
		return false, nil
	}
	return err == nil, err
}

func (l *logFiles) name(file int) string {
	if file == 0 {
		return l.stream
	}
	return fmt.Sprintf("%s.%d", l.stream, file)
}
