package volumemgr

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"mesos-gpu/internal/atomicfile"
)

// manifestName is the only file in a volume's own folder.
const manifestName = "manifest.json"

// Manifest tells what is in a volume, as it was when it was put there.
type Manifest struct {
	Version string `json:"version"`
	// Files is ordered by path.
	Files []ManifestEntry `json:"files"`
	// HostFiles lie outside the volume, on the host.
	HostFiles []HostFile `json:"host_files,omitempty"`
}

// ManifestEntry is one file of a volume.
type ManifestEntry struct {
	// Path is below the volume, "lib64/libcuda.so.535.104.05"; Links are
	// further names in the same folder.
	Path  string    `json:"path"`
	Links []string  `json:"links,omitempty"`
	Size  int64     `json:"size"`
	Time  time.Time `json:"mtime"`
	// SHA256 is empty for a file that was not read since it was put there: a
	// link costs no reading. Verify fills it in.
	SHA256 string `json:"sha256,omitempty"`
	// How the file came in.
	How        PlacedBy   `json:"how"`
	Capability Capability `json:"capability,omitempty"`
}

func (e ManifestEntry) equal(other ManifestEntry) bool {
	links := slices.Equal(e.Links, other.Links) && e.Time.Equal(other.Time)
	e.Links, other.Links, e.Time, other.Time = nil, nil, time.Time{}, time.Time{}
	return links && reflect.DeepEqual(e, other)
}

func (e ManifestEntry) compare(other ManifestEntry) int { return cmp.Compare(e.Path, other.Path) }

// PlacedBy a file got into a volume.
type PlacedBy string

const (
	Linked PlacedBy = "link"  // a hard link: the driver's own file
	Cloned PlacedBy = "clone" // a copy that shares its blocks (FICLONE)
	Copied PlacedBy = "copy"
)

func (m Manifest) byPath() map[string]ManifestEntry {
	entries := make(map[string]ManifestEntry, len(m.Files))
	for _, e := range m.Files {
		entries[e.Path] = e
	}
	return entries
}

// readManifest gives an empty one where there is none or a torn one: the
// volume's files are then looked at afresh.
func readManifest(volume string) (Manifest, error) {
	var m Manifest
	text, err := os.ReadFile(filepath.Join(volume, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, nil
	}
	if err != nil {
		return Manifest{}, err
	}
	if json.Unmarshal(text, &m) != nil {
		return Manifest{}, nil
	}
	return m, nil
}

// writeManifest replaces a volume's manifest in one step.
func writeManifest(volume string, m Manifest) error {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(volume, manifestName), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}

// removeIfExists is os.Remove for what may not be there.
func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Inspect reads a volume's manifest. A volume without one has an empty one.
func (s Store) Inspect(name string) (Manifest, error) {
	path, err := s.volumePath(name)
	if err != nil {
		return Manifest{}, fmt.Errorf("inspect volume: %w", err)
	}
	m, err := readManifest(path)
	if err != nil {
		return Manifest{}, fmt.Errorf("inspect volume %s: %w", name, err)
	}
	return m, nil
}
