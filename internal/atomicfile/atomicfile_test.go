package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReplaceFile(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	for name, replaceFile := range map[string]func(string, []byte, fs.FileMode) error{
		"write": Write, "update": Update, "replace": Replace,
		"replace in": func(path string, data []byte, mode fs.FileMode) error {
			root, err := os.OpenRoot(filepath.Dir(path))
			if err != nil {
				return err
			}
			defer root.Close()
			return ReplaceIn(root, filepath.Base(path), data, mode)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, victim := filepath.Join(dir, "file"), filepath.Join(t.TempDir(), "victim")
			if err := os.WriteFile(victim, []byte("kept"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, planted := range []string{path, filepath.Join(dir, TempPrefix+"file")} {
				if err := os.Symlink(victim, planted); err != nil {
					t.Fatal(err)
				}
			}
			for _, text := range []string{"first", "second"} {
				if err := replaceFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				got, err := os.ReadFile(path)
				info, statErr := os.Lstat(path)
				if err != nil || statErr != nil || string(got) != text || info.Mode() != 0o644 {
					t.Errorf("the file has %q, mode %v (%v, %v); want %q, mode 644", got, info.Mode(), err, statErr, text)
				}
			}
			if got, _ := os.ReadFile(victim); string(got) != "kept" {
				t.Errorf("the file that a planted link leads to has %q", got)
			}
		})
	}
}

// A replacement that fails leaves the old file, and nothing next to it.
func TestFailedReplacementLeavesOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(path, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if Write(path, nil, 0o644) == nil || Replace(path, nil, 0o644) == nil || Symlink("x", path) == nil {
		t.Error("a folder was replaced by a file or link")
	}
	if Write(filepath.Join(dir, "none", "file"), nil, 0o644) == nil {
		t.Error("a file in a missing folder was written")
	}
	if left, err := os.ReadDir(dir); len(left) != 1 || err != nil {
		t.Errorf("the folder has %v, %v; want one entry", left, err)
	}
}

func TestSymlink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "link")
	if err := os.WriteFile(path, []byte("file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"one", "two"} {
		if err := Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(path); got != target || err != nil {
			t.Errorf("the link leads to %q, %v; want %s", got, err, target)
		}
	}
}
