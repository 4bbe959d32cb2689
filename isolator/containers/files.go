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
	homeName  = "cgroups"
)

// files is the folder with one file for each container. A file is replaced
// whole, so that a crash of the process leaves the old or the new one. It is
// not synced: what a crash of the machine tears, its cgroups go with.
type files struct {
	dir string
	// hook, where a test set it, is asked before each change of a file.
	hook func(name string) error
}

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

// settle notes where the cgroups of the containers are. Files of containers
// whose cgroups are elsewhere are an error: these containers may run, and would
// look gone here.
func (f files) settle(home string, containers int) error {
	was, err := os.ReadFile(filepath.Join(f.dir, homeName))
	switch {
	case err == nil && strings.TrimSpace(string(was)) == home:
		return nil
	case err == nil && containers > 0:
		return fmt.Errorf("%s keeps %d containers of a daemon with %s, this one has %s: start it as it was, or with a --runtime-dir of its own; "+
			"once none of those containers runs, remove the folder", f.dir, containers, strings.TrimSpace(string(was)), home)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read where the containers' cgroups are: %w", err)
	}
	if err := f.put(homeName, []byte(home)); err != nil {
		return fmt.Errorf("note where the containers' cgroups are: %w", err)
	}
	return nil
}

func (f files) write(e entry) error {
	text, err := json.Marshal(e)
	if err == nil {
		err = f.put(fileName(e.Holding.Container), text)
	}
	if err != nil {
		return fmt.Errorf("write container's file: %w", err)
	}
	return nil
}

// put replaces a file, or leaves it as it is. One writer at a time for a
// container, so that the name of the new one is free.
func (f files) put(name string, text []byte) error {
	if err := f.ask(name); err != nil {
		return err
	}
	fresh := filepath.Join(f.dir, temporary+name)
	err := os.WriteFile(fresh, append(text, '\n'), 0o600)
	if err == nil {
		err = os.Rename(fresh, filepath.Join(f.dir, name))
	}
	if err != nil {
		os.Remove(fresh)
	}
	return err
}

func (f files) ask(name string) error {
	if f.hook == nil {
		return nil
	}
	return f.hook(name)
}

// remove removes a file; one that is gone is removed already.
func (f files) remove(name string) error {
	if err := f.ask(name); err != nil {
		return fmt.Errorf("remove container's file: %w", err)
	}
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove container's file: %w", err)
	}
	return nil
}
