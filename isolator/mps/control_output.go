package mps

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	// maxLogBytes bounds each file that the daemon and its servers write: they are in memory, and the
	// daemon writes several lines for each probe. keptLogBytes are kept when it is exceeded.
	maxLogBytes  = 1 << 20
	keptLogBytes = 64 << 10
)

// outputFile is what the daemon writes to its standard output and error. The file is open for
// appending, so that it can be cut while the daemon runs.
func (d *controlDaemon) outputFile() string { return filepath.Join(d.logDir(), "output") }

// lastOutput returns the last lines that the daemon has written.
func (d *controlDaemon) lastOutput() string {
	text, _ := readTail(d.outputFile(), maxOutputBytes)
	return strings.TrimSpace(string(text))
}

// serverFailed is a line about a server that did not end by itself.
var serverFailed = regexp.MustCompile(`[Ss]erver \d+.* exited with status [1-9]\d*`)

// checkOutput notices a server that failed since the last call, and cuts the files that grew too large.
func (d *controlDaemon) checkOutput() {
	text, size := readTail(d.outputFile(), maxOutputBytes)
	if size < d.checkedBytes { // cut or new
		d.checkedBytes = 0
	}
	text = text[max(0, len(text)-int(size-d.checkedBytes)):]
	d.checkedBytes = size
	if lines := serverFailed.FindAll(text, -1); len(lines) > 0 {
		err := errors.New(string(lines[len(lines)-1]))
		d.log.WithError(err).WithField("output", strings.TrimSpace(string(text))).
			Error("MPS server failed: its clients fail, and new ones are rejected for some time")
		d.mu.Lock()
		d.serverErr, d.serverFailedAt = err, time.Now()
		d.mu.Unlock()
	}
	entries, _ := os.ReadDir(d.logDir())
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Size() > maxLogBytes {
			if err := cutFile(filepath.Join(d.logDir(), e.Name())); err != nil {
				d.log.WithError(err).Warn("cannot cut the output of MPS")
			}
		}
	}
}

// cutFile keeps the last lines of a file that another process appends to.
func cutFile(path string) error {
	text, _ := readTail(path, keptLogBytes)
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_TRUNC, 0)
	if err != nil {
		return fmt.Errorf("cut %s: %w", path, err)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// readTail returns the last bytes of a file and its size; nothing if it cannot be read.
func readTail(path string, most int64) ([]byte, int64) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-most), most))
	if err != nil {
		return nil, 0
	}
	return text, info.Size()
}
