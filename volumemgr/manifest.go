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

// manifestName is the only file that is not in a subfolder of the volume.
const manifestName = "manifest.json"

// Manifest records the files of a volume as they were added.
type Manifest struct {
	Version string `json:"version"`
	// Files is sorted by path.
	Files []ManifestEntry `json:"files"`
	// HostFiles stay on the host, outside the volume.
	HostFiles []HostFile `json:"host_files,omitempty"`
}

// ManifestEntry is one file of a volume.
type ManifestEntry struct {
	// Path is relative to the volume, "lib64/libcuda.so.535.104.05". Links are
	// additional names in the same folder.
	Path  string    `json:"path"`
	Links []string  `json:"links,omitempty"`
	Size  int64     `json:"size"`
	Time  time.Time `json:"mtime"`
	// SHA256 is empty for a hard link that was not read yet. Verify adds it.
	SHA256 string `json:"sha256,omitempty"`
	// How is the way the file was added.
	How        PlacedBy   `json:"how"`
	Capability Capability `json:"capability,omitempty"`
}

func (e ManifestEntry) equal(other ManifestEntry) bool {
	links := slices.Equal(e.Links, other.Links) && e.Time.Equal(other.Time)
	e.Links, other.Links, e.Time, other.Time = nil, nil, time.Time{}, time.Time{}
	return links && reflect.DeepEqual(e, other)
}

func (e ManifestEntry) compare(other ManifestEntry) int { return cmp.Compare(e.Path, other.Path) }

// PlacedBy is the way a file was added to a volume.
type PlacedBy string

const (
	Linked PlacedBy = "link"  // a hard link to the driver's own file
	Cloned PlacedBy = "clone" // a copy that shares blocks (FICLONE)
	Copied PlacedBy = "copy"
)

func (m Manifest) byPath() map[string]ManifestEntry {
	entries := make(map[string]ManifestEntry, len(m.Files))
	for _, e := range m.Files {
		entries[e.Path] = e
	}
	return entries
}

// readManifest returns an empty manifest if none exists or if it is torn. All
// files of the volume are then checked again.
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

// writeManifest replaces a volume's manifest atomically.
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

// removeIfExists is os.Remove without an error for a missing file.
func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Inspect returns a volume's manifest. It is empty if the volume has none.
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
