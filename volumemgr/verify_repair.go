package volumemgr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mesos-gpu/internal/elffile"
)

// FileDamage is a difference between a file of a volume and the manifest.
type FileDamage struct {
	// Path is relative to the volume.
	Path string `json:"path"`
	What string `json:"what"`

	// digestDiffers means that the content is damaged and the size is not. isForeign means
	// that the file does not belong to the volume's driver.
	digestDiffers, isForeign bool
}

func (d FileDamage) String() string { return d.Path + " " + d.What }

// ErrNoVolume is returned if the store has no volume of that name.
var ErrNoVolume = errors.New("no such volume")

// Verify reports why tasks cannot use a volume, and what differs from its manifest: it
// must have the required libraries, and no files that are not of its driver. It reads every
// file. It changes none. It adds the digests of hard links to the manifest if their
// size and time are unchanged. It returns ErrNoVolume if the volume does not exist.
func (s Store) Verify(ctx context.Context, name string) ([]FileDamage, error) {
	damage, err := s.verifyVolume(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("verify volume %s: %w", name, err)
	}
	return damage, nil
}

func (s Store) verifyVolume(ctx context.Context, name string) ([]FileDamage, error) {
	path, err := s.volumePath(name)
	if err != nil {
		return nil, err
	}
	damage, err := checkUsable(path)
	if err != nil {
		return nil, err
	}
	m, err := readManifest(path)
	if err != nil || m.Version == "" {
		return damage, err
	}
	known := map[string]bool{}
	for _, d := range damage {
		known[d.Path] = true
	}
	learnt := map[string]string{}
	for _, e := range m.Files {
		if known[e.Path] {
			continue
		}
		digest, err := s.fileDigest(ctx, filepath.Join(path, e.Path))
		if err != nil {
			return nil, err
		}
		switch e.SHA256 {
		case "":
			learnt[e.Path] = digest
		case digest:
		default:
			what := fmt.Sprintf("has the digest %.12s…, want %.12s…", digest, e.SHA256)
			damage = append(damage, FileDamage{Path: e.Path, What: what, digestDiffers: true})
		}
	}
	damage = append(damage, foreignFiles(path, m)...)
	slices.SortStableFunc(damage, func(a, b FileDamage) int { return cmp.Compare(a.Path, b.Path) })
	return damage, s.storeDigests(ctx, path, m, learnt)
}

// checkUsable returns what a volume lacks, without reading its files. The error is
// ErrNoVolume if it does not exist.
func checkUsable(volume string) ([]FileDamage, error) {
	if _, err := os.Lstat(volume); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoVolume
	}
	m, err := readManifest(volume)
	if err != nil {
		return nil, err
	}
	if m.Version == "" {
		return []FileDamage{{Path: manifestName, What: "is missing or torn"}}, nil
	}
	var damage []FileDamage
	var files []DriverFile
	for _, e := range m.Files {
		found, err := compareEntry(volume, e)
		if err != nil {
			return nil, err
		}
		if found != nil {
			damage = append(damage, *found)
		}
		damage = append(damage, missingLinks(volume, e)...)
		dir, name := filepath.Split(e.Path)
		files = append(files, DriverFile{Dir: filepath.Clean(dir), Name: name})
	}
	for _, name := range missingLibraries(m.Version, files) {
		damage = append(damage, FileDamage{Path: "lib64/" + name, What: "is missing, and no task can use a GPU without it"})
	}
	return damage, nil
}

// compareEntry returns the damage of a file that its size and time show.
func compareEntry(volume string, e ManifestEntry) (*FileDamage, error) {
	damaged := func(what string) (*FileDamage, error) { return &FileDamage{Path: e.Path, What: what}, nil }
	info, err := os.Lstat(filepath.Join(volume, e.Path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return damaged("is missing")
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return damaged("is not a regular file")
	case info.Size() != e.Size:
		return damaged(fmt.Sprintf("has %d bytes, want %d", info.Size(), e.Size))
	case e.SHA256 == "" && !info.ModTime().Equal(e.Time):
		return damaged("was changed after it was added")
	}
	return nil, nil
}

// foreignFiles returns the files of a volume that are not of its driver: programs of other
// versions, and files that need a newer glibc than the driver's libraries.
func foreignFiles(volume string, m Manifest) (foreign []FileDamage) {
	entries := m.byPath()
	isOf := func(program string) bool {
		_, ok := entries["bin/"+program]
		return ok && containsVersion(filepath.Join(volume, "bin", program), m.Version)
	}
	for _, p := range driverPrograms {
		if _, ok := entries["bin/"+p.name]; ok && !isOf(p.name) && !isOf(p.leader) {
			foreign = append(foreign, FileDamage{Path: "bin/" + p.name, What: "is not of version " + m.Version, isForeign: true})
		}
	}
	var newest []int
	needed := map[string][]int{}
	for path := range entries {
		f, err := elffile.Open(filepath.Join(volume, path))
		if err != nil {
			continue // a script, or damaged
		}
		needed[path], _ = elffile.NeededGlibc(f)
		f.Close()
		if strings.HasSuffix(path, ".so."+m.Version) && slices.Compare(needed[path], newest) > 0 {
			newest = needed[path]
		}
	}
	for path, glibc := range needed {
		if slices.Compare(glibc, newest) > 0 && !slices.ContainsFunc(foreign, func(d FileDamage) bool { return d.Path == path }) {
			what := fmt.Sprintf("needs glibc %s, the driver's libraries %s", formatNumbers(glibc), cmp.Or(formatNumbers(newest), "none"))
			foreign = append(foreign, FileDamage{Path: path, What: what, isForeign: true})
		}
	}
	return foreign
}

// formatNumbers returns 2.34 for [2 34].
func formatNumbers(version []int) string {
	var parts []string
	for _, n := range version {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ".")
}

func missingLinks(volume string, e ManifestEntry) []FileDamage {
	dir, name := filepath.Split(e.Path)
	var damage []FileDamage
	for _, link := range e.Links {
		if !isLinked(name, filepath.Join(volume, dir, link)) {
			damage = append(damage, FileDamage{Path: dir + link, What: "is no link to " + name})
		}
	}
	return damage
}

// storeDigests adds digests to the manifest, except for entries that changed in
// the meantime. It does nothing in a read-only store.
func (s Store) storeDigests(ctx context.Context, volume string, read Manifest, digests map[string]string) error {
	if len(digests) == 0 {
		return nil
	}
	unlock, err := s.lockStore(ctx)
	if errors.Is(err, unix.EROFS) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	now, err := readManifest(volume)
	if err != nil {
		return err
	}
	before := read.byPath()
	for i, e := range now.Files {
		if digest, ok := digests[e.Path]; ok && e.equal(before[e.Path]) {
			now.Files[i].SHA256 = digest
		}
	}
	return writeManifest(volume, now)
}

// Repair verifies the driver's volume, replaces damaged files by the driver's own, and
// removes those that do not belong to the driver. A new file takes the name; a program that
// has the old one mapped keeps it. It returns what was damaged.
func (s Store) Repair(ctx context.Context, d InstalledDriver) (DriverVolume, []FileDamage, error) {
	name := volumePrefix + d.Version
	damage, err := s.Verify(ctx, name)
	if err != nil && !errors.Is(err, ErrNoVolume) {
		return DriverVolume{}, nil, err
	}
	bad, foreign := map[string]bool{}, map[string]bool{}
	for _, one := range damage {
		bad[one.Path] = one.digestDiffers || one.isForeign
		foreign[one.Path] = one.isForeign
	}
	for _, f := range d.Files {
		delete(foreign, f.volumePath())
		if bad[f.volumePath()] && sameFile(f.Source, filepath.Join(s.Dir, name, f.volumePath())) {
			return DriverVolume{}, damage, fmt.Errorf("repair volume %s: %s is the driver's own file %s, which is damaged too; reinstall the driver",
				name, f.volumePath(), f.Source)
		}
	}
	if err := s.removeFiles(ctx, name, foreign); err != nil {
		return DriverVolume{}, damage, fmt.Errorf("repair volume %s: %w", name, err)
	}
	v, err := s.createVolume(ctx, d, bad)
	return v, damage, err
}

// removeFiles removes files with their links from a volume, first from its manifest.
func (s Store) removeFiles(ctx context.Context, name string, paths map[string]bool) error {
	if !slices.Contains(slices.Collect(maps.Values(paths)), true) {
		return nil
	}
	volume, err := s.volumePath(name)
	if err != nil {
		return err
	}
	unlock, err := s.lockStore(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := readManifest(volume)
	if err != nil {
		return err
	}
	var removed []string
	m.Files = slices.DeleteFunc(m.Files, func(e ManifestEntry) bool {
		if paths[e.Path] {
			removed = append(removed, e.Path)
			for _, link := range e.Links {
				removed = append(removed, filepath.Join(filepath.Dir(e.Path), link))
			}
		}
		return paths[e.Path]
	})
	if err := writeManifest(volume, m); err != nil {
		return err
	}
	for _, path := range removed {
		if err := removeIfExists(filepath.Join(volume, path)); err != nil {
			return err
		}
	}
	return nil
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(one, other)
}
