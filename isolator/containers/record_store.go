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

	"mesos-gpu/isolator/allocation"
)

const (
	recordSuffix = ".json"
	tempPrefix   = ".new-"
	locationFile = "cgroups"
)

// recordStore is the folder with one file for each container. A file is replaced
// whole, so that a crash of the process leaves the old or the new one. It is
// not synced: what a crash of the machine tears, its cgroups go with.
type recordStore struct {
	dir string
	// beforeChange, where a test set it, is asked before each change of a file.
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

// loadRecords gives the entries, parents before the nested, and the files that hold
// none. It makes the folder and removes what a crash left half written.
func (f recordStore) loadRecords() (entries []containerRecord, bad []badRecord, err error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make folder of containers: %w", err)
	}
	list, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read folder of containers: %w", err)
	}
	for _, file := range list {
		name := file.Name()
		switch {
		case strings.HasPrefix(name, tempPrefix):
			if err := f.removeFile(name); err != nil {
				return nil, nil, err
			}
		case strings.HasSuffix(name, recordSuffix):
			if e, err := f.parseRecord(name); err != nil {
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

func (f recordStore) parseRecord(name string) (containerRecord, error) {
	text, err := os.ReadFile(filepath.Join(f.dir, name))
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
		return containerRecord{}, fmt.Errorf("parse container's file %s: it is of container %s", name, e.Allocation.Container)
	}
	return e, nil
}

// bindLocation notes where the cgroups of the containers are. Files of containers
// whose cgroups are elsewhere are an error: these containers may run, and would
// look gone here.
func (f recordStore) bindLocation(home string, containers int) error {
	was, err := os.ReadFile(filepath.Join(f.dir, locationFile))
	switch {
	case err == nil && strings.TrimSpace(string(was)) == home:
		return nil
	case err == nil && containers > 0:
		return fmt.Errorf("%s keeps %d containers of a daemon with %s, this one has %s: start it as it was, or with a --runtime-dir of its own; "+
			"once none of those containers runs, remove the folder", f.dir, containers, strings.TrimSpace(string(was)), home)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read where the containers' cgroups are: %w", err)
	}
	if err := f.replaceFile(locationFile, []byte(home)); err != nil {
		return fmt.Errorf("note where the containers' cgroups are: %w", err)
	}
	return nil
}

func (f recordStore) writeRecord(e containerRecord) error {
	text, err := json.Marshal(e)
	if err == nil {
		err = f.replaceFile(recordFileName(e.Allocation.Container), text)
	}
	if err != nil {
		return fmt.Errorf("write container's file: %w", err)
	}
	return nil
}

// replaceFile replaces a file, or leaves it as it is. One writer at a time for a
// container, so that the name of the new one is free.
func (f recordStore) replaceFile(name string, text []byte) error {
	if err := f.runHook(name); err != nil {
		return err
	}
	fresh := filepath.Join(f.dir, tempPrefix+name)
	err := os.WriteFile(fresh, append(text, '\n'), 0o600)
	if err == nil {
		err = os.Rename(fresh, filepath.Join(f.dir, name))
	}
	if err != nil {
		os.Remove(fresh)
	}
	return err
}

func (f recordStore) runHook(name string) error {
	if f.beforeChange == nil {
		return nil
	}
	return f.beforeChange(name)
}

// removeFile removes a file; one that is gone is removed already.
func (f recordStore) removeFile(name string) error {
	if err := f.runHook(name); err != nil {
		return fmt.Errorf("remove container's file: %w", err)
	}
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove container's file: %w", err)
	}
	return nil
}
