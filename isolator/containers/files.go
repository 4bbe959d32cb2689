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

	"mesos-gpu/isolator/ledger"
)

const (
	suffix    = ".json"
	temporary = ".new-"
)

// files is the folder with one file for each container. A file is replaced
// whole, so that a crash of the process leaves the old or the new one. It is
// not synced: what a crash of the machine tears, its cgroups go with.
type files struct{ dir string }

type entry struct {
	Holding ledger.Holding `json:"holding"`
	Facts   facts          `json:"facts"`
}

type badFile struct {
	name string
	err  error
}

// read gives the entries, parents before the nested, and the files that hold
// none. It makes the folder and removes what a crash left half written.
func (f files) read() (entries []entry, bad []badFile, err error) {
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
		case strings.HasPrefix(name, temporary):
			if err := f.remove(name); err != nil {
				return nil, nil, err
			}
		case strings.HasSuffix(name, suffix):
			if e, err := f.parse(name); err != nil {
				bad = append(bad, badFile{name, err})
			} else {
				entries = append(entries, e)
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Compare(strings.Count(a.Holding.Container, "."), strings.Count(b.Holding.Container, "."))
	})
	return entries, bad, nil
}

func (f files) parse(name string) (entry, error) {
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		return entry{}, fmt.Errorf("read container's file: %w", err)
	}
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		return entry{}, fmt.Errorf("parse container's file of %d bytes: %w", len(text), err)
	}
	if err := CheckID(e.Holding.Container); err != nil {
		return entry{}, fmt.Errorf("parse container's file: %w", err)
	}
	if fileName(e.Holding.Container) != name {
		return entry{}, fmt.Errorf("parse container's file %s: it is of container %s", name, e.Holding.Container)
	}
	return e, nil
}

func (f files) write(e entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write container's file: %w", err)
	}
	// One writer at a time for a container, so that the name is free.
	name := fileName(e.Holding.Container)
	fresh := filepath.Join(f.dir, temporary+name)
	err = os.WriteFile(fresh, append(text, '\n'), 0o600)
	if err == nil {
		err = os.Rename(fresh, filepath.Join(f.dir, name))
	}
	if err != nil {
		os.Remove(fresh)
		return fmt.Errorf("write container's file: %w", err)
	}
	return nil
}

// remove removes a file; one that is gone is removed already.
func (f files) remove(name string) error {
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove container's file: %w", err)
	}
	return nil
}
