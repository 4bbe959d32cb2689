package containers

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/isolator/allocation"
)

const (
	recordSuffix = ".json"
	locationFile = "cgroups"
)

// recordStore is the folder with one file for each container. A file is replaced as a whole, so
// a crash of the process leaves the old or the new one. It is not synced: a crash of the
// machine that damages a file ends its cgroup, too.
type recordStore struct {
	dir string
	// beforeChange is set by tests only. It runs before each change of a file and may fail it.
	beforeChange func(name string) error
}

type containerRecord struct {
	Allocation allocation.Allocation `json:"holding"`
	Info       containerInfo         `json:"facts"`
}

type badRecord struct {
	name string
	err  error
}

// loadRecords returns the records, parents before nested containers, and the files that contain
// none. It creates the folder, and removes files that a crash left incomplete.
func (s recordStore) loadRecords() (entries []containerRecord, bad []badRecord, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make folder of containers: %w", err)
	}
	list, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read folder of containers: %w", err)
	}
	for _, file := range list {
		name := file.Name()
		switch {
		case strings.HasPrefix(name, atomicfile.TempPrefix):
			if err := s.removeFile(name); err != nil {
				return nil, nil, err
			}
		case strings.HasSuffix(name, recordSuffix):
			if e, err := s.parseRecord(name); err != nil {
				bad = append(bad, badRecord{name, err})
			} else {
				entries = append(entries, e)
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b containerRecord) int {
		return cmp.Compare(strings.Count(a.Allocation.Container, "."), strings.Count(b.Allocation.Container, "."))
	})
	return entries, bad, nil
}

func (s recordStore) parseRecord(name string) (containerRecord, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return containerRecord{}, fmt.Errorf("read container's file: %w", err)
	}
	var e containerRecord
	if err := json.Unmarshal(text, &e); err != nil {
		return containerRecord{}, fmt.Errorf("parse container's file of %d bytes: %w", len(text), err)
	}
	if err := CheckID(e.Allocation.Container); err != nil {
		return containerRecord{}, fmt.Errorf("parse container's file: %w", err)
	}
	if recordFileName(e.Allocation.Container) != name {
		return containerRecord{}, fmt.Errorf("parse container's file %s: it belongs to container %s", name, e.Allocation.Container)
	}
	return e, nil
}

// bindLocation records where the containers' cgroups are. It is an error if the folder has
// records of containers with cgroups elsewhere: such containers may be running, and would look
// ended here.
func (s recordStore) bindLocation(home string, containers int) error {
	was, err := os.ReadFile(filepath.Join(s.dir, locationFile))
	switch {
	case err == nil && strings.TrimSpace(string(was)) == home:
		return nil
	case err == nil && containers > 0:
		return fmt.Errorf("%s contains records of %d containers of a daemon with %s, but this daemon has %s: "+
			"start it with the former flags, or with its own --runtime-dir; "+
			"once none of those containers runs, remove the folder", s.dir, containers, strings.TrimSpace(string(was)), home)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the location of the containers' cgroups: %w", err)
	}
	if err := s.replaceFile(locationFile, []byte(home)); err != nil {
		return fmt.Errorf("write the location of the containers' cgroups: %w", err)
	}
	return nil
}

func (s recordStore) writeRecord(e containerRecord) error {
	text, err := json.Marshal(e)
	if err == nil {
		err = s.replaceFile(recordFileName(e.Allocation.Container), text)
	}
	if err != nil {
		return fmt.Errorf("write container's file: %w", err)
	}
	return nil
}

// replaceFile replaces a file, or leaves it as it is. A container has one writer at a time, so
// the name of the temporary file is free.
func (s recordStore) replaceFile(name string, text []byte) error {
	if err := s.runHook(name); err != nil {
		return err
	}
	return atomicfile.Replace(filepath.Join(s.dir, name), append(text, '\n'), 0o600)
}

func (s recordStore) runHook(name string) error {
	if s.beforeChange == nil {
		return nil
	}
	return s.beforeChange(name)
}

// removeFile removes a file. A file that does not exist is no error.
func (s recordStore) removeFile(name string) error {
	if err := s.runHook(name); err != nil {
		return fmt.Errorf("remove container's file: %w", err)
	}
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove container's file: %w", err)
	}
	return nil
}
