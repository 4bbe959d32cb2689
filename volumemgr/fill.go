package volumemgr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// work is what there is to do to one volume.
type work struct {
	store  Store
	volume string
	driver Driver
	// bad are paths of files that are not what the manifest says, although
	// size and time are.
	bad map[string]bool
	// fresh: the volume is new and has no name yet.
	fresh bool
}

// complete puts into a volume what it lacks, and makes that durable. It
// touches nothing that is there as it should be.
func (w work) complete(ctx context.Context) error {
	before, err := readManifest(w.volume)
	if err != nil {
		return err
	}
	entries := before.byPath()
	changed := map[string]bool{}
	if err := w.folders(changed); err != nil {
		return err
	}
	for _, f := range w.driver.Files {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e, added, err := w.file(ctx, f, entries[f.path()])
		if err != nil {
			return err
		}
		entries[f.path()] = e
		changed[f.Dir] = changed[f.Dir] || added
	}
	after := manifestOf(w.driver, entries)
	if !slices.EqualFunc(after.Files, before.Files, Entry.equal) || !slices.Equal(after.HostFiles, before.HostFiles) {
		if err := writeManifest(w.volume, after); err != nil {
			return err
		}
		changed[""] = false // synced with the manifest
	}
	for dir, yes := range changed {
		if yes {
			if err := syncDir(filepath.Join(w.volume, dir)); err != nil {
				return err
			}
		}
	}
	return nil
}

func manifestOf(d Driver, entries map[string]Entry) Manifest {
	m := Manifest{Version: d.Version, HostFiles: d.HostFiles}
	for _, e := range entries {
		m.Files = append(m.Files, e)
	}
	slices.SortFunc(m.Files, Entry.compare)
	return m
}

// folders notes in changed which ones must be made durable; "" is the
// volume's own.
func (w work) folders(changed map[string]bool) error {
	if !w.fresh {
		if err := w.leftovers(); err != nil {
			return err
		}
	}
	for _, dir := range dirs() {
		err := os.Mkdir(filepath.Join(w.volume, dir), 0o755)
		if err == nil {
			changed[""] = true
		} else if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// unfinished begins the names of files that are about to get their own.
const unfinished = ".new-"

// leftovers removes what a crash left under such names.
func (w work) leftovers() error {
	for _, dir := range append(dirs(), "") {
		left, err := filepath.Glob(filepath.Join(w.volume, dir, unfinished+"*"))
		if err != nil {
			return err
		}
		for _, path := range left {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove the remains of a crash: %w", err)
			}
		}
	}
	return nil
}

// file makes one file and its links as they should be.
func (w work) file(ctx context.Context, f File, before Entry) (e Entry, changed bool, err error) {
	e, ok := filed(w.volume, f, before)
	if !ok || w.bad[f.path()] {
		if e, err = w.place(ctx, f); err != nil {
			return Entry{}, false, fmt.Errorf("put %s into %s: %w", f.Name, f.Dir, err)
		}
		changed = true
	}
	for _, link := range f.Links {
		added, err := symlink(f.Name, filepath.Join(w.volume, f.Dir, link))
		if err != nil {
			return Entry{}, false, fmt.Errorf("link %s in %s: %w", link, f.Dir, err)
		}
		changed = changed || added
	}
	return e, changed, nil
}

// filed tells whether the volume has the driver's file: the same one, or a
// copy of its size and time. It gives the manifest's entry for it, with the
// digest that is known.
func filed(volume string, f File, before Entry) (Entry, bool) {
	info, err := os.Lstat(filepath.Join(volume, f.Dir, f.Name))
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.Size {
		return Entry{}, false
	}
	source, err := os.Lstat(f.Source)
	if err != nil {
		return Entry{}, false
	}
	e := Entry{Path: f.path(), Links: f.Links, Size: info.Size(), Time: info.ModTime(), How: Linked, Capability: f.Capability}
	if before.Size == e.Size && before.Time.Equal(e.Time) {
		e.SHA256 = before.SHA256
	}
	if os.SameFile(info, source) {
		return e, true
	}
	e.How = before.How // that of a copy made by nobody we know is not trusted
	return e, before.How != "" && sameSecond(info.ModTime(), source.ModTime())
}

// sameSecond: some file systems keep no more of a time than that.
func sameSecond(a, b time.Time) bool { return a.Truncate(time.Second).Equal(b.Truncate(time.Second)) }

// whole tells, without a change, whether complete would find nothing to do.
func (w work) whole() bool {
	before, err := readManifest(w.volume)
	if err != nil || !slices.Equal(w.driver.HostFiles, before.HostFiles) {
		return false
	}
	entries := before.byPath()
	for _, f := range w.driver.Files {
		e, ok := filed(w.volume, f, entries[f.path()])
		if !ok || !e.equal(entries[f.path()]) {
			return false
		}
		for _, link := range f.Links {
			if !linked(f.Name, filepath.Join(w.volume, f.Dir, link)) {
				return false
			}
		}
	}
	return !slices.ContainsFunc(dirs(), func(dir string) bool {
		_, err := os.Stat(filepath.Join(w.volume, dir))
		return err != nil
	})
}
