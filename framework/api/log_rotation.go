package api

import (
	"bytes"
	"errors"
	"fmt"
)

const (
	// MaxPreceding bounds LogPreceding: by so much of what precedes it a place in a log
	// is known again when its file has got another name.
	MaxPreceding = 128
	// maxLogFiles bounds the search for a log's older files.
	maxLogFiles = 100
	// maxFindTries is how often a place is looked for before it counts as gone,
	// and maxRotationTries how often files may change places under a read.
	maxFindTries, maxRotationTries = 3, 30
)

var (
	// errRotating: files change places; a moment later they have.
	errRotating = errors.New("the log's files are changing places")
	// errOutputLost: the file that was read is gone, and with it what followed.
	errOutputLost = errors.New("output was rotated away before it was read")
	// errFileEnded: what follows is of another file than the answer.
	errFileEnded = errors.New("another file follows")
)

// logPosition is where a reader is in a log.
type logPosition struct {
	file      int // 0 is the present one, n is the one that ends in .n
	offset    uint64
	preceding []byte // the known bytes before it in its file
}

// rotatedLog reads a log through the rotation of its files. An agent names no
// file but by its path, so each read looks whether the bytes before it are
// still those that were read: output that repeats itself to the byte over a
// whole file may be taken for another's.
type rotatedLog struct {
	// readFile returns ErrNoLog, wrapped, where there is no such file.
	readFile func(file string, offset, length uint64) (data []byte, size uint64, err error)
	stream   string
	// singleFile keeps what is of two files apart, by errFileEnded, once told is set:
	// the reader knows that what comes begins at from.
	singleFile, answerStarted bool
	answerOffset              uint64

	position        logPosition
	unread          bool   // nothing was read yet: begin with the oldest
	tailBytes       uint64 // or, if not 0, so many bytes before the end
	nextFilePending bool   // the file at the place is complete, the next one is to come
	attempts        int    // since the last byte
}

// readNext returns what follows, nil where there is nothing yet.
func (l *rotatedLog) readNext() ([]byte, error) {
	if l.unread && l.tailBytes > 0 {
		if err := l.seekToTail(); err != nil {
			return nil, err
		}
	}
	if l.unread {
		return l.readOldestFile()
	}
	data, same, err := l.readCurrent()
	if err == nil && !same {
		if err = l.findRotatedFile(); err == nil {
			data, same, err = l.readCurrent()
		}
	}
	switch {
	case err != nil:
		return nil, err
	case !same:
		return nil, l.retryOrGiveUp()
	case len(data) > 0 && l.singleFile && l.answerStarted && l.nextFilePending:
		return nil, errFileEnded // it was not complete after all
	case len(data) > 0:
		l.answerOffset, l.nextFilePending = l.position.offset, false
		l.setPosition(l.position.file, l.position.offset+uint64(len(data)), append(l.position.preceding, data...))
		return data, nil
	case l.position.file == 0:
		l.answerOffset, l.nextFilePending = l.position.offset, false
		return nil, nil
	case l.singleFile && l.answerStarted && !l.nextFilePending:
		return nil, errFileEnded
	}
	return l.readNewerFile()
}

// readCurrent reads on in the file at the place; same reports whether it is still that
// file.
func (l *rotatedLog) readCurrent() (data []byte, same bool, err error) {
	n := uint64(len(l.position.preceding))
	data, _, err = l.readFile(l.fileName(l.position.file), l.position.offset-n, n+logChunk)
	if l.position.file > 0 && errors.Is(err, ErrNoLog) {
		return nil, false, nil
	}
	if err != nil || !bytes.HasPrefix(data, l.position.preceding) {
		return nil, false, err
	}
	return data[n:], true, nil
}

// readNewerFile begins the file after the one that was read to its end. While that is
// where it was, so is its successor.
func (l *rotatedLog) readNewerFile() ([]byte, error) {
	l.answerOffset, l.nextFilePending = 0, true
	file := l.position.file - 1
	data, _, err := l.readFile(l.fileName(file), 0, logChunk)
	if errors.Is(err, ErrNoLog) {
		return nil, l.retryOrGiveUp()
	}
	if err != nil {
		return nil, err
	}
	rest, same, err := l.readCurrent()
	if err != nil {
		return nil, err
	}
	if !same || len(rest) > 0 {
		return nil, l.retryOrGiveUp()
	}
	if len(data) > 0 || file > 0 {
		l.setPosition(file, uint64(len(data)), data)
	}
	return data, nil
}

// readOldestFile reads the oldest file. It was the oldest if none is older after that.
func (l *rotatedLog) readOldestFile() ([]byte, error) {
	oldest := 0
	for ; oldest < maxLogFiles; oldest++ {
		if there, err := l.fileExists(oldest + 1); err != nil {
			return nil, err
		} else if !there {
			break
		}
	}
	l.answerOffset = 0
	data, _, err := l.readFile(l.fileName(oldest), 0, logChunk)
	if oldest > 0 && errors.Is(err, ErrNoLog) {
		return nil, l.retryOrGiveUp()
	}
	if err != nil {
		return nil, err
	}
	if there, err := l.fileExists(oldest + 1); err != nil {
		return nil, err
	} else if there {
		return nil, l.retryOrGiveUp()
	}
	if len(data) > 0 || oldest > 0 {
		l.setPosition(oldest, uint64(len(data)), data)
	}
	return data, nil
}

// seekToTail goes to where the last bytes of the present file begin.
func (l *rotatedLog) seekToTail() error {
	_, size, err := l.readFile(l.stream, 0, 1)
	if err != nil {
		return err
	}
	l.position, l.unread = logPosition{offset: size - min(l.tailBytes, size)}, false
	return nil
}

// findRotatedFile looks for the place among the older files. A file whose head was moved
// out, rather than all of it, keeps the rest: the place is then as far behind
// as the older file is long. One that was emptied has lost what came last.
func (l *rotatedLog) findRotatedFile() error {
	p, n := l.position, uint64(len(l.position.preceding))
	for file, holes := p.file+1, 0; file <= maxLogFiles && holes < 2; file++ {
		data, size, err := l.readFile(l.fileName(file), p.offset-n, n)
		switch {
		case errors.Is(err, ErrNoLog):
			holes++
			continue
		case err != nil:
			return err
		case bytes.Equal(data, p.preceding):
			l.position.file = file
			return nil
		case size >= p.offset:
			continue
		}
		behind := p.offset - size
		known := min(n, behind)
		head, rest := p.preceding[:n-known], p.preceding[n-known:]
		if ends, err := l.fileEndsWith(file, size, head); err != nil || !ends {
			if err != nil {
				return err
			}
			continue
		}
		kept, _, err := l.readFile(l.fileName(file-1), behind-known, known)
		if err != nil && !errors.Is(err, ErrNoLog) {
			return err
		}
		switch {
		case bytes.Equal(kept, rest):
			l.position = logPosition{file - 1, behind, rest}
			return nil
		case len(head) > 0:
			l.position = logPosition{file, size, head}
			return nil
		}
	}
	if l.attempts++; l.attempts < maxFindTries {
		return errRotating
	}
	return errOutputLost
}

// fileEndsWith reports whether a file of that size ends in the text.
func (l *rotatedLog) fileEndsWith(file int, size uint64, text []byte) (bool, error) {
	n := uint64(len(text))
	if n == 0 || n > size {
		return n == 0, nil
	}
	data, _, err := l.readFile(l.fileName(file), size-n, n)
	if errors.Is(err, ErrNoLog) {
		return false, nil
	}
	return bytes.Equal(data, text), err
}

// setPosition is at an offset of a file that has the text before it.
func (l *rotatedLog) setPosition(file int, offset uint64, text []byte) {
	tail := bytes.Clone(text[max(0, len(text)-MaxPreceding):])
	l.position, l.unread, l.nextFilePending, l.attempts = logPosition{file, offset, tail}, false, false, 0
}

func (l *rotatedLog) retryOrGiveUp() error {
	if l.attempts++; l.attempts < maxRotationTries {
		return errRotating
	}
	return fmt.Errorf("read %s: its files change places faster than they are read", l.stream)
}

func (l *rotatedLog) fileExists(file int) (bool, error) {
	_, _, err := l.readFile(l.fileName(file), 0, 1)
	if errors.Is(err, ErrNoLog) {
		return false, nil
	}
	return err == nil, err
}

func (l *rotatedLog) fileName(file int) string {
	if file == 0 {
		return l.stream
	}
	return fmt.Sprintf("%s.%d", l.stream, file)
}
