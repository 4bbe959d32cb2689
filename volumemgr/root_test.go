package volumemgr

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

const v535 = "535.104.05"

// simulatedRoot creates a simulated driver root.
func simulatedRoot(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := WriteSimulatedDriver(dir, v535); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustFind(t *testing.T, dir string) InstalledDriver {
	t.Helper()
	d, err := FindDriver(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := writeSimulated(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

func mustLink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func mustMove(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// treeEntry contains everything of a file that a second Create could change.
type treeEntry struct {
	Mode  fs.FileMode
	Size  int64
	Mtime int64
	Inode uint64
	Link  string
}

// readTree describes every file below dir.
func readTree(t *testing.T, dir string) map[string]treeEntry {
	t.Helper()
	all := map[string]treeEntry{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		target, _ := os.Readlink(path)
		all[name] = treeEntry{info.Mode(), info.Size(), info.ModTime().UnixNano(), inodeOf(info), target}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
func inodeOf(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }
