// Package outputtimes notes when a task writes its output, in a file in its sandbox.
package outputtimes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"mesos-gpu/internal/outputindex"
)

// maxFileBytes limits the file. Above it, entries are thinned out.
const maxFileBytes = 1 << 20

// stagedSuffix ends the name of a file that will replace the present one.
const stagedSuffix = ".new"

// TimeRecorder appends entries to the file. Its methods may be called concurrently.
type TimeRecorder struct {
	mu      sync.Mutex
	sandbox *os.Root
	// file is nil after Close.
	file *os.File
	size int64
	last outputindex.Entry
}

// Create creates the file, also over one of that name. It follows no link out of the
// sandbox, in which the task can write.
func Create(sandbox string) (*TimeRecorder, error) {
	root, err := os.OpenRoot(sandbox)
	if err != nil {
		return nil, fmt.Errorf("record times of output: %w", err)
	}
	r := &TimeRecorder{sandbox: root}
	if err := r.replaceFile(nil); err != nil {
		root.Close()
		return nil, fmt.Errorf("record times of output: %w", err)
	}
	return r, nil
}

// Record appends an entry for the present time if a stream has grown or its file was
// rotated since the last one.
func (r *TimeRecorder) Record(ends, starts outputindex.Positions) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil || ends == r.last.Ends && starts == r.last.Starts {
		return nil
	}
	e := outputindex.Entry{Time: time.Now(), Ends: ends, Starts: starts}
	if e.Time.Before(r.last.Time) {
		e.Time = r.last.Time // the clock was set back
	}
	if r.size > maxFileBytes {
		if err := r.thinOut(); err != nil {
			return fmt.Errorf("record times of output: %w", err)
		}
	}
	n, err := r.file.Write(e.AppendLine(nil))
	r.size += int64(n)
	if err != nil {
		return fmt.Errorf("record times of output: %w", err)
	}
	r.last = e
	return nil
}

// thinOut replaces the file by one with fewer entries.
func (r *TimeRecorder) thinOut() error {
	text, err := io.ReadAll(io.NewSectionReader(r.file, 0, r.size))
	if err != nil {
		return err
	}
	var thin []byte
	for _, e := range outputindex.ThinOut(outputindex.ParseEntries(text)) {
		thin = e.AppendLine(thin)
	}
	return r.replaceFile(thin)
}

func (r *TimeRecorder) replaceFile(text []byte) error {
	staged := outputindex.FileName + stagedSuffix
	if err := r.sandbox.RemoveAll(staged); err != nil {
		return err
	}
	file, err := r.sandbox.OpenFile(staged, os.O_APPEND|os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = r.sandbox.Rename(staged, outputindex.FileName)
	}
	if err != nil {
		return errors.Join(err, file.Close(), r.sandbox.Remove(staged))
	}
	if r.file != nil {
		r.file.Close()
	}
	r.file, r.size = file, int64(len(text))
	return nil
}

// Close ends the recording. Later entries are ignored.
func (r *TimeRecorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := errors.Join(r.file.Close(), r.sandbox.Close())
	r.file = nil
	return err
}
