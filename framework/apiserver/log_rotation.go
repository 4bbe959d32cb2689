package apiserver

import (
	"bytes"
	"errors"
	"fmt"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
)

const (
	// maxLogFiles limits the search for rotated files of a log.
	maxLogFiles = 100
	// maxFindTries is how often a position is searched before its output counts as
	// lost. maxRotationTries is how often a read is retried because files are renamed.
	maxFindTries, maxRotationTries = 3, 30
)

var (
	// errRotating means that files are being renamed; retry shortly.
	errRotating = errors.New("the log's files are being rotated")
	// errOutputLost means that the file was removed before it was read to its end.
	errOutputLost = errors.New("output was rotated away before it was read")
	// errFileEnded means that the file is read completely and another one follows.
	errFileEnded = errors.New("another file follows")
)

// logPosition is a reader's position in a log.
type logPosition struct {
	// file is 0 for the current file, n for the rotated file with suffix .n. A larger n is an older file.
	file   int
	offset uint64
	// preceding are the bytes before offset that have been read, at most MaxPreceding. They identify the file.
	preceding []byte
}

// rotatedLog reads a log while its files are rotated. An agent identifies a file only by
// its path, so each read checks that the bytes before the position are those read
// earlier. The check cannot distinguish files with exactly the same content.
type rotatedLog struct {
	// readFile reads from a file and returns its size. It returns request.ErrNoLog, wrapped, if
	// the file does not exist.
	readFile func(file string, offset, length uint64) (data []byte, size uint64, err error)
	// stream is the name of the current file: stdout or stderr.
	stream string
	// singleFile ends the answer with errFileEnded where another file follows, once
	// answerStarted is set: the client then knows that the data starts at answerOffset.
	singleFile, answerStarted bool
	answerOffset              uint64

	// position is where the next read continues.
	position logPosition
	// unread is set while nothing is read: the first read starts with the oldest file or, if tailBytes is not 0, so
	// many bytes before the end of the current one.
	unread    bool
	tailBytes uint64
	// nextFilePending is set when the file at position was read to its end and the next one is expected.
	nextFilePending bool
	// attempts counts the failed attempts since the last data.
	attempts int
}

// readNext returns the next data. It returns nil while no further data exists.
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
		return nil, errFileEnded // the file has grown although it seemed complete
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

// readCurrent continues in the file at the position. same reports whether the path still
// refers to that file.
func (l *rotatedLog) readCurrent() (data []byte, same bool, err error) {
	n := uint64(len(l.position.preceding))
	data, _, err = l.readFile(l.fileName(l.position.file), l.position.offset-n, n+logChunk)
	if l.position.file > 0 && errors.Is(err, request.ErrNoLog) {
		return nil, false, nil
	}
	if err != nil || !bytes.HasPrefix(data, l.position.preceding) {
		return nil, false, err
	}
	return data[n:], true, nil
}

// readNewerFile starts the file after one that was read to its end. It then checks that
// the old file still has its name, because only then the new one is its successor.
func (l *rotatedLog) readNewerFile() ([]byte, error) {
	l.answerOffset, l.nextFilePending = 0, true
	file := l.position.file - 1
	data, _, err := l.readFile(l.fileName(file), 0, logChunk)
	if errors.Is(err, request.ErrNoLog) {
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

// readOldestFile reads the start of the oldest file. It afterwards checks that no older
// one has appeared.
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
	if oldest > 0 && errors.Is(err, request.ErrNoLog) {
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

// seekToTail sets the position to tailBytes before the end of the current file.
func (l *rotatedLog) seekToTail() error {
	_, size, err := l.readFile(l.stream, 0, 1)
	if err != nil {
		return err
	}
	l.position, l.unread = logPosition{offset: size - min(l.tailBytes, size)}, false
	return nil
}

// findRotatedFile searches the position in older files and updates it. If only the start
// of a file was moved out, the rest continues in the newer file, and the offset there is
// smaller by the length of the older file. If the file was truncated, the search
// continues at the end of the older file, and the last output is lost.
func (l *rotatedLog) findRotatedFile() error {
	p, n := l.position, uint64(len(l.position.preceding))
	// One file may be missing while files are renamed; two that are missing are the end.
	for file, missing := p.file+1, 0; file <= maxLogFiles && missing < 2; file++ {
		data, size, err := l.readFile(l.fileName(file), p.offset-n, n)
		switch {
		case errors.Is(err, request.ErrNoLog):
			missing++
			continue
		case err != nil:
			return err
		case bytes.Equal(data, p.preceding):
			l.position.file = file
			return nil
		case size >= p.offset:
			continue
		}
		// The file is shorter than the position: it may have only the start of what was read, and the newer one the rest.
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
		if err != nil && !errors.Is(err, request.ErrNoLog) {
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

// fileEndsWith reports whether a file of this size ends with the text.
func (l *rotatedLog) fileEndsWith(file int, size uint64, text []byte) (bool, error) {
	n := uint64(len(text))
	if n == 0 || n > size {
		return n == 0, nil
	}
	data, _, err := l.readFile(l.fileName(file), size-n, n)
	if errors.Is(err, request.ErrNoLog) {
		return false, nil
	}
	return bytes.Equal(data, text), err
}

// setPosition sets the position after text, which ends at offset of the file.
func (l *rotatedLog) setPosition(file int, offset uint64, text []byte) {
	tail := bytes.Clone(text[max(0, len(text)-api.MaxPreceding):])
	l.position, l.unread, l.nextFilePending, l.attempts = logPosition{file, offset, tail}, false, false, 0
}

// retryOrGiveUp counts a failed attempt. It returns errRotating, or another error after maxRotationTries.
func (l *rotatedLog) retryOrGiveUp() error {
	if l.attempts++; l.attempts < maxRotationTries {
		return errRotating
	}
	return fmt.Errorf("read %s: its files are rotated faster than they are read", l.stream)
}

// fileExists reports whether there is a rotated file with that number.
func (l *rotatedLog) fileExists(file int) (bool, error) {
	_, _, err := l.readFile(l.fileName(file), 0, 1)
	if errors.Is(err, request.ErrNoLog) {
		return false, nil
	}
	return err == nil, err
}

// fileName returns the name of the file with a number, as of logPosition.
func (l *rotatedLog) fileName(file int) string {
	if file == 0 {
		return l.stream
	}
	return fmt.Sprintf("%s.%d", l.stream, file)
}
