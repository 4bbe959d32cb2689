package journal

import (
	"errors"
	"fmt"
	"os"

	"mesos-gpu/internal/atomicfile"
)

// markerPath returns the path of a journal file's marker. The marker is a small file
// that exists once the journal may contain a change. An empty or missing journal with a
// marker was emptied by accident: without the marker it is a new one.
func markerPath(path string) string { return path + ".created" }

// markerText explains the marker to an operator who finds it.
const markerText = `mesos-gpu wrote this file when it first wrote the journal next to it. If the journal is empty
or missing, the scheduler does not start: it would forget its jobs and lose its tasks.
To begin without them, remove this file as well.
`

// checkMarkerAbsent returns ErrEmptied, wrapped with the remedy, if the marker exists.
func checkMarkerAbsent(path, why string) error {
	_, err := os.Lstat(markerPath(path))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("open journal: %w", err)
	}
	return fmt.Errorf("open journal %s: %w (%s, and %s exists): restore it from a backup, or remove %s to begin without the jobs it held",
		path, ErrEmptied, why, markerPath(path), markerPath(path))
}

// writeMarkerOnce makes the marker before the first change is written: after a crash between the two, the journal is
// empty with a marker, and the operator decides. On a full disk the journal works without it, and the next process tries
// again.
func (b *BoltJournal) writeMarkerOnce() error {
	if b.marked {
		return nil
	}
	_, err := os.Lstat(markerPath(b.path))
	if errors.Is(err, os.ErrNotExist) {
		err = atomicfile.Write(markerPath(b.path), []byte(markerText), 0o600)
	}
	if err != nil && !isDiskFull(err) {
		return fmt.Errorf("mark journal %s: %w", b.path, err)
	}
	b.marked = true
	return nil
}

// RemoveBolt removes the journal file at path and its marker, if they exist. No process
// may have the journal open.
func RemoveBolt(path string) error {
	for _, file := range []string{path, markerPath(path)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove journal: %w", err)
		}
	}
	return nil
}
