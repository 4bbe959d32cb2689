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

	"mesos-gpu/internal/atomicfile"
)

// volumeUpdate creates or completes one volume.
type volumeUpdate struct {
	store Store
	// volume is the path of the volume's folder, or of the staging folder that
	// will become it.
	volume string
	// driver is the driver whose files the volume must have.
	driver InstalledDriver
	// damaged has the paths of files whose content differs from the manifest
	// although their size and time do not.
	damaged map[string]bool
	// isNew is set while the volume is in a staging folder.
	isNew bool
}

// completeVolume adds what a volume lacks and syncs it to disk. It does not touch
// files that are correct.
func (u volumeUpdate) completeVolume(ctx context.Context) error {
	before, err := readManifest(u.volume)
	if err != nil {
		return err
	}
	entries := before.byPath()
	changed := map[string]bool{}
	if err := u.makeFolders(changed); err != nil {
		return err
	}
	for _, f := range u.driver.Files {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e, added, err := u.placeFile(ctx, f, entries[f.volumePath()])
		if err != nil {
			return err
		}
		entries[f.volumePath()] = e
		changed[f.Dir] = changed[f.Dir] || added
	}
	after := manifestOf(u.driver, entries)
	if !slices.EqualFunc(after.Files, before.Files, ManifestEntry.equal) || !slices.Equal(after.HostFiles, before.HostFiles) {
		if err := writeManifest(u.volume, after); err != nil {
			return err
		}
		changed[""] = false // writeManifest synced it
	}
	for dir, yes := range changed {
		if yes {
			if err := atomicfile.SyncDir(filepath.Join(u.volume, dir)); err != nil {
				return err
			}
		}
	}
	return nil
}

func manifestOf(d InstalledDriver, entries map[string]ManifestEntry) Manifest {
	m := Manifest{Version: d.Version, HostFiles: d.HostFiles}
	for _, e := range entries {
		m.Files = append(m.Files, e)
	}
	slices.SortFunc(m.Files, ManifestEntry.compare)
	return m
}

// makeFolders creates the volume's folders. It records in changed which folders
// must be synced; "" is the volume's own.
func (u volumeUpdate) makeFolders(changed map[string]bool) error {
	if !u.isNew {
		if err := u.removeLeftovers(); err != nil {
			return err
		}
	}
	for _, dir := range volumeDirs() {
		err := os.Mkdir(filepath.Join(u.volume, dir), 0o755)
		if err == nil {
			changed[""] = true
		} else if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// removeLeftovers removes temporary files that a crash left.
func (u volumeUpdate) removeLeftovers() error {
	for _, dir := range append(volumeDirs(), "") {
		left, err := findByPrefix(filepath.Join(u.volume, dir), atomicfile.TempPrefix)
		if err != nil {
			return err
		}
		for _, path := range left {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove temporary files of a crashed process: %w", err)
			}
		}
	}
	return nil
}

// placeFile adds or corrects one file and its links.
func (u volumeUpdate) placeFile(ctx context.Context, f DriverFile, before ManifestEntry) (e ManifestEntry, changed bool, err error) {
	e, ok := findPlaced(u.volume, f, before)
	if !ok || u.damaged[f.volumePath()] {
		if e, err = u.writeFile(ctx, f); err != nil {
			return ManifestEntry{}, false, fmt.Errorf("put %s into %s: %w", f.Name, f.Dir, err)
		}
		changed = true
	}
	for _, link := range f.Links {
		added, err := makeSymlink(f.Name, filepath.Join(u.volume, f.Dir, link))
		if err != nil {
			return ManifestEntry{}, false, fmt.Errorf("link %s in %s: %w", link, f.Dir, err)
		}
		changed = changed || added
	}
	return e, changed, nil
}

// findPlaced reports whether the volume has the driver's file: a hard link to it,
// or a copy with its size and time. It returns the file's manifest entry, with
// the digest if it is known.
func findPlaced(volume string, f DriverFile, before ManifestEntry) (ManifestEntry, bool) {
	info, err := os.Lstat(filepath.Join(volume, f.Dir, f.Name))
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.Size {
		return ManifestEntry{}, false
	}
	source, err := os.Lstat(f.Source)
	if err != nil {
		return ManifestEntry{}, false
	}
	e := ManifestEntry{Path: f.volumePath(), Links: f.Links, Size: info.Size(), Time: info.ModTime(), How: Linked, Capability: f.Capability}
	if before.Size == e.Size && before.Time.Equal(e.Time) {
		e.SHA256 = before.SHA256
	}
	if os.SameFile(info, source) {
		return e, true
	}
	e.How = before.How // a copy that the manifest does not list is not trusted
	return e, before.How != "" && sameSecond(info.ModTime(), source.ModTime())
}

// sameSecond compares times in seconds, the resolution of some file systems.
func sameSecond(a, b time.Time) bool { return a.Truncate(time.Second).Equal(b.Truncate(time.Second)) }

// isWhole reports whether completeVolume would change nothing.
func (u volumeUpdate) isWhole() bool {
	before, err := readManifest(u.volume)
	if err != nil || !slices.Equal(u.driver.HostFiles, before.HostFiles) {
		return false
	}
	entries := before.byPath()
	for _, f := range u.driver.Files {
		e, ok := findPlaced(u.volume, f, entries[f.volumePath()])
		if !ok || !e.equal(entries[f.volumePath()]) {
			return false
		}
		for _, link := range f.Links {
			if !isLinked(f.Name, filepath.Join(u.volume, f.Dir, link)) {
				return false
			}
		}
	}
	return !slices.ContainsFunc(volumeDirs(), func(dir string) bool {
		_, err := os.Stat(filepath.Join(u.volume, dir))
		return err != nil
	})
}
