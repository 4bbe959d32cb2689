package volumemgr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FileDamage is a difference between a file of a volume and the manifest.
type FileDamage struct {
	// Path is relative to the volume.
	Path string `json:"path"`
	What string `json:"what"`

	// digestDiffers means that the content is damaged and the size is not.
	digestDiffers bool
}

func (d FileDamage) String() string { return d.Path + " " + d.What }

// ErrNoVolume is returned if the store has no volume of that name.
var ErrNoVolume = errors.New("no such volume")

// Verify reads every file of a volume and compares it with the manifest. It
// changes no file. It adds the digests of hard links to the manifest if their
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
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoVolume
	}
	m, err := readManifest(path)
	if err != nil {
		return nil, err
	}
	if m.Version == "" {
		return []FileDamage{{Path: manifestName, What: "is missing or torn"}}, nil
	}
	var damage []FileDamage
	learnt := map[string]string{}
	for _, e := range m.Files {
		found, digest, err := s.compareFile(ctx, path, e)
		if err != nil {
			return nil, err
		}
		if found != nil {
			damage = append(damage, *found)
		} else if e.SHA256 == "" {
			learnt[e.Path] = digest
		}
		damage = append(damage, missingLinks(path, e)...)
	}
	return damage, s.storeDigests(ctx, path, m, learnt)
}

// compareFile returns the damage of a file, or else its digest.
func (s Store) compareFile(ctx context.Context, volume string, e ManifestEntry) (damage *FileDamage, digest string, err error) {
	damaged := func(what string) (*FileDamage, string, error) { return &FileDamage{Path: e.Path, What: what}, "", nil }
	path := filepath.Join(volume, e.Path)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return damaged("is missing")
	case err != nil:
		return nil, "", err
	case !info.Mode().IsRegular():
		return damaged("is not a regular file")
	case info.Size() != e.Size:
		return damaged(fmt.Sprintf("has %d bytes, want %d", info.Size(), e.Size))
	case e.SHA256 == "" && !info.ModTime().Equal(e.Time):
		return damaged("was changed after it was added")
	}
	if digest, err = s.fileDigest(ctx, path); err != nil {
		return nil, "", err
	}
	if e.SHA256 != "" && digest != e.SHA256 {
		return &FileDamage{Path: e.Path, What: fmt.Sprintf("has the digest %.12s…, want %.12s…", digest, e.SHA256), digestDiffers: true}, "", nil
	}
	return nil, digest, nil
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

// Repair verifies the driver's volume and replaces damaged files by the driver's
// own. The new file takes the name; a program that has the damaged one mapped
// keeps it. It returns what was damaged.
func (s Store) Repair(ctx context.Context, d InstalledDriver) (DriverVolume, []FileDamage, error) {
	name := volumePrefix + d.Version
	damage, err := s.Verify(ctx, name)
	if err != nil && !errors.Is(err, ErrNoVolume) {
		return DriverVolume{}, nil, err
	}
	bad := map[string]bool{}
	for _, one := range damage {
		bad[one.Path] = one.digestDiffers
	}
	for _, f := range d.Files {
		if bad[f.volumePath()] && sameFile(f.Source, filepath.Join(s.Dir, name, f.volumePath())) {
			return DriverVolume{}, damage, fmt.Errorf("repair volume %s: %s is the driver's own file %s, which is damaged too; reinstall the driver",
				name, f.volumePath(), f.Source)
		}
	}
	v, err := s.createVolume(ctx, d, bad)
	return v, damage, err
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(one, other)
}
