package volumemgr

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"mesos-gpu/internal/need"
)

// disk mounts a small file system of its own for the test.
func disk(t *testing.T, size string) string {
	t.Helper()
	need.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func remount(t *testing.T, dir string, flags uintptr, options string) {
	t.Helper()
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT|flags, options); err != nil {
		t.Fatal(err)
	}
}

// On another file system files are copied; one that fills up leaves nothing
// behind, and once there is room the volume is made.
func TestRootDiskFull(t *testing.T) {
	d := mustFind(t, root(t))
	s := Store{Dir: disk(t, "16k")}
	if _, err := s.Create(context.Background(), d); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v, want no space left", err)
	}
	wantEntries(t, s, ".lock")

	remount(t, s.Dir, 0, "size=1m")
	v := mustCreate(t, s, d)
	for _, f := range d.Files {
		got, err := os.ReadFile(filepath.Join(v.Path, f.Dir, f.Name))
		want, wantErr := os.ReadFile(f.Source)
		if err != nil || wantErr != nil || string(got) != string(want) {
			t.Errorf("the copy of %s differs: %v, %v", f.Source, err, wantErr)
		}
		info, err := os.Stat(filepath.Join(v.Path, f.Dir, f.Name))
		source, sourceErr := os.Stat(f.Source)
		if err != nil || sourceErr != nil || info.Mode() != source.Mode() {
			t.Errorf("the copy of %s has mode %v, want %v", f.Source, info.Mode(), source.Mode())
		}
	}
	before := tree(t, v.Path)
	mustCreate(t, s, d)
	if after := tree(t, v.Path); len(after) != len(before) || after["bin/nvidia-smi"] != before["bin/nvidia-smi"] {
		t.Error("the second time copied again")
	}
}

// A repair that the disk has no room for leaves the volume as it was.
func TestRootDiskFullInRepair(t *testing.T) {
	d := mustFind(t, root(t))
	s := Store{Dir: disk(t, "1m")}
	v := mustCreate(t, s, d)
	name := filepath.Join(v.Path, "lib64", "libcuda.so."+v535)
	if err := os.Truncate(name, 1); err != nil {
		t.Fatal(err)
	}
	filler, err := os.Create(filepath.Join(s.Dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	for block := make([]byte, 4096); err == nil; _, err = filler.Write(block) {
	}
	if _, err := s.Create(context.Background(), d); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v, want no space left", err)
	}
	if left, _ := filepath.Glob(filepath.Join(v.Path, "*", ".new-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := filler.Truncate(0); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, s, d)
	if info, err := os.Stat(name); err != nil || info.Size() == 1 {
		t.Errorf("not repaired: %v, %v", info, err)
	}
}

func TestRootReadOnlyStore(t *testing.T) {
	d := mustFind(t, root(t))
	s := Store{Dir: disk(t, "1m")}
	remount(t, s.Dir, unix.MS_RDONLY, "")
	if _, err := s.Create(context.Background(), d); !errors.Is(err, unix.EROFS) {
		t.Errorf("got %v, want read-only file system", err)
	}
	wantEntries(t, s)
}

// A whole volume on a read-only store needs no writing, but for the lock.
func TestRootStoreThatBecomesReadOnly(t *testing.T) {
	d := mustFind(t, root(t))
	s := Store{Dir: disk(t, "1m")}
	v := mustCreate(t, s, d)
	if err := os.Remove(filepath.Join(v.Path, "lib64/libcuda.so")); err != nil {
		t.Fatal(err)
	}
	remount(t, s.Dir, unix.MS_RDONLY, "")
	if _, err := s.Create(context.Background(), d); !errors.Is(err, unix.EROFS) {
		t.Errorf("got %v, want read-only file system", err)
	}
}
