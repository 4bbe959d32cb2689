package volumemgr

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"mesos-gpu/internal/testing/testneeds"
)

// mountDisk mounts a small file system for the test.
func mountDisk(t *testing.T, size string) string {
	t.Helper()
	testneeds.RequireRoot(t)
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

func mustRemount(t *testing.T, dir string, flags uintptr, options string) {
	t.Helper()
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT|flags, options); err != nil {
		t.Fatal(err)
	}
}

// On another file system files are copied. If it fills up, nothing remains; once there is
// space, the volume is created.
func TestRootDiskFull(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: mountDisk(t, "16k")}
	_, err := s.Create(context.Background(), d)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "the driver's files have 0.0 MiB, "+s.Dir+" has 0.0 MiB free: make room") {
		t.Fatalf("got %v, want no space left, both numbers and what to do", err)
	}
	wantEntries(t, s, ".lock")

	mustRemount(t, s.Dir, 0, "size=1m")
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
	before := readTree(t, v.Path)
	mustCreate(t, s, d)
	if after := readTree(t, v.Path); len(after) != len(before) || after["bin/nvidia-smi"] != before["bin/nvidia-smi"] {
		t.Error("the second time copied again")
	}
}

// A repair without enough disk space leaves the volume unchanged.
func TestRootDiskFullInRepair(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: mountDisk(t, "1m")}
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
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: mountDisk(t, "1m")}
	mustRemount(t, s.Dir, unix.MS_RDONLY, "")
	if _, err := s.Create(context.Background(), d); !errors.Is(err, unix.EROFS) {
		t.Errorf("got %v, want read-only file system", err)
	}
	wantEntries(t, s)
}

// A driver on a read-only root, as on an image-based host, is copied to a store on
// another file system, and its own file system is not written.
func TestRootReadOnlyDriver(t *testing.T) {
	dir := mountDisk(t, "1m")
	if err := WriteSimulatedDriver(dir, v535); err != nil {
		t.Fatal(err)
	}
	mustRemount(t, dir, unix.MS_RDONLY, "")
	s := Store{Dir: t.TempDir()}
	v := mustCreate(t, s, mustFind(t, dir))
	mustCreate(t, s, mustFind(t, dir))
	if got := mustVerify(t, s, v.Name); got != nil {
		t.Error(got)
	}
	if _, err := (Store{Dir: filepath.Join(dir, "volumes")}).Create(context.Background(), mustFind(t, dir)); !errors.Is(err, unix.EROFS) ||
		!strings.Contains(err.Error(), "choose a folder on a file system that can be written") {
		t.Errorf("a store on the read-only root: %v", err)
	}
}

// A complete volume in a read-only store needs no writes; a damaged one does.
func TestRootStoreThatBecomesReadOnly(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: mountDisk(t, "1m")}
	v := mustCreate(t, s, d)
	mustRemount(t, s.Dir, unix.MS_RDONLY, "")
	mustCreate(t, s, d)
	if got := mustVerify(t, s, v.Name); got != nil {
		t.Error(got)
	}
	mustRemount(t, s.Dir, 0, "")
	mustRemove(t, filepath.Join(v.Path, "lib64/libcuda.so"))
	mustRemount(t, s.Dir, unix.MS_RDONLY, "")
	if _, err := s.Create(context.Background(), d); !errors.Is(err, unix.EROFS) ||
		!strings.Contains(err.Error(), "choose a folder on a file system that can be written") {
		t.Errorf("got %v, want read-only file system", err)
	}
}

func TestRootStoreWithoutExec(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: mountDisk(t, "1m")}
	mustRemount(t, s.Dir, unix.MS_NOEXEC, "")
	if _, err := s.Create(context.Background(), d); !errors.Is(err, ErrNoExec) || !strings.Contains(err.Error(), s.Dir+" is on a file system mounted noexec") {
		t.Errorf("got %v, want ErrNoExec", err)
	}
	wantEntries(t, s, ".lock")
	mustRemount(t, s.Dir, 0, "")
	mustCreate(t, s, d)
	mustRemount(t, s.Dir, unix.MS_NOEXEC, "")
	if _, err := s.Create(context.Background(), d); !errors.Is(err, ErrNoExec) {
		t.Errorf("a whole volume that no container can use: %v", err)
	}
}

// asUnprivileged runs f as a user that owns none of the files.
func asUnprivileged(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setfsuid(0); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}

// openStore lets other users open the store's lock and reach the store.
func openStore(t *testing.T, s Store) {
	t.Helper()
	for dir := s.Dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(s.Dir, ".lock"), 0o666); err != nil {
		t.Fatal(err)
	}
}

// makeReadOnly mounts a volume read-only at its own path, as on an image-based host.
func makeReadOnly(t *testing.T, dir string) {
	t.Helper()
	for _, flags := range []uintptr{unix.MS_BIND, unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY} {
		if err := unix.Mount(dir, dir, "", flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

// Each write that a read-only volume needs is an error, and the volume remains as it is.
func TestRootIncompleteReadOnlyVolume(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	for name, c := range map[string]struct {
		damage func(t *testing.T, volume string)
		want   string
	}{
		"a folder is missing": {func(t *testing.T, v string) {
			if err := os.RemoveAll(filepath.Join(v, "bin")); err != nil {
				t.Fatal(err)
			}
		}, "mkdir "},
		"the manifest has another file of the host": {func(t *testing.T, v string) {
			m, err := readManifest(v)
			if err != nil {
				t.Fatal(err)
			}
			m.HostFiles = []HostFile{{Path: "/etc/other"}}
			if err := writeManifest(v, m); err != nil {
				t.Fatal(err)
			}
		}, "write manifest: "},
		"a link is missing": {func(t *testing.T, v string) { mustRemove(t, filepath.Join(v, "lib/libcuda.so")) }, "link libcuda.so in lib: "},
		"a temporary file is left": {func(t *testing.T, v string) {
			mustRemove(t, filepath.Join(v, "lib/libcuda.so"))
			mustWrite(t, filepath.Join(v, "lib/.new-x"), "")
		}, "remove temporary files of a crashed process: "},
	} {
		t.Run(name, func(t *testing.T) {
			s := Store{Dir: mountDisk(t, "1m")}
			v := mustCreate(t, s, d)
			c.damage(t, v.Path)
			before := readTree(t, v.Path)
			makeReadOnly(t, v.Path)
			if _, err := s.Create(context.Background(), d); !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want read-only file system in %q", err, c.want)
			}
			if diff := cmp.Diff(before, readTree(t, v.Path)); diff != "" {
				t.Errorf("the volume changed (-before +after):\n%s", diff)
			}
		})
	}
}

// The digests of linked files are not stored in a read-only store; nothing else prevents that silently.
func TestRootVerifyLinksInReadOnlyStore(t *testing.T) {
	dir := mountDisk(t, "1m")
	if err := WriteSimulatedDriver(filepath.Join(dir, "driver"), v535); err != nil {
		t.Fatal(err)
	}
	s := Store{Dir: filepath.Join(dir, "volumes")}
	v := mustCreate(t, s, mustFind(t, filepath.Join(dir, "driver")))
	mustRemount(t, dir, unix.MS_RDONLY, "")
	if got := mustVerify(t, s, v.Name); got != nil {
		t.Error(got)
	}
	mustRemount(t, dir, 0, "")
	if m, err := s.Inspect(v.Name); err != nil || m.Files[0].SHA256 != "" {
		t.Errorf("got %v, %v, want no digest", m.Files[0], err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	asUnprivileged(t, func() {
		if _, err := s.Verify(context.Background(), v.Name); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("another user: %v", err)
		}
	})
}

func TestFilesOfAnotherUser(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: t.TempDir()}
	v := mustCreate(t, s, d)
	openStore(t, s)
	if err := os.Chmod(d.Files[0].Source, 0); err != nil {
		t.Fatal(err)
	}
	next := d
	next.Version = "535.104.06"
	asUnprivileged(t, func() {
		if damage, err := s.Verify(context.Background(), v.Name); !errors.Is(err, fs.ErrPermission) || len(damage) > 0 {
			t.Errorf("a file that cannot be read: %v, %v", damage, err)
		}
		if _, err := s.Create(context.Background(), next); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a store that cannot be written: %v", err)
		}
	})
	wantEntries(t, s, ".lock", v.Name)
}

func TestStoreOfAnotherUser(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	dir := t.TempDir()
	for outer := dir; outer != os.TempDir() && outer != "/"; outer = filepath.Dir(outer) {
		if err := os.Chmod(outer, 0o555); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // otherwise it could not be removed
		if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
			t.Error(err)
		}
	})
	s := Store{Dir: filepath.Join(dir, "volumes")}
	asUnprivileged(t, func() {
		_, err := s.Create(context.Background(), d)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "run as root, or choose a folder that user") {
			t.Errorf("got %v, want permission denied and what to do", err)
		}
	})
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// If a hard link is not possible, a file system with reflinks shares the blocks.
// nvidia-modprobe is an example: its set-user-ID bit is removed.
func TestRootClone(t *testing.T) {
	testneeds.RequireRoot(t)
	mkfs := testneeds.RequireProgram(t, "mkfs.xfs", "xfsprogs")
	image := filepath.Join(t.TempDir(), "xfs")
	mustWrite(t, image, "")
	mustTruncate(t, image, 320<<20)
	if out, err := exec.Command(mkfs, "-q", "-m", "reflink=1", image).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("needs to mount a loop device with xfs: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("%v %s", err, out)
		}
	})
	driver := filepath.Join(dir, "driver")
	if err := WriteSimulatedDriver(driver, v535); err != nil {
		t.Fatal(err)
	}
	modprobe := filepath.Join(driver, "usr/bin/nvidia-modprobe")
	program := "#!/bin/sh\n# 535.104.05\n" + strings.Repeat("x", 1<<20)
	mustWrite(t, modprobe, program)
	if err := os.Chmod(modprobe, 0o755|fs.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	s := Store{Dir: filepath.Join(dir, "volumes")}
	v := mustCreate(t, s, mustFind(t, driver))
	m, err := s.Inspect(v.Name)
	if err != nil {
		t.Fatal(err)
	}
	for path, e := range m.byPath() {
		want := Linked
		if path == "bin/nvidia-modprobe" {
			want = Cloned
		}
		if e.How != want {
			t.Errorf("%s came in as %s, want %s", path, e.How, want)
		}
	}
	if got := mustVerify(t, s, v.Name); got != nil {
		t.Error(got)
	}
	text, err := os.ReadFile(filepath.Join(v.Path, "bin/nvidia-modprobe"))
	if err != nil || string(text) != program {
		t.Errorf("the clone has %d bytes, %v", len(text), err)
	}
	before := readTree(t, s.Dir)
	mustCreate(t, s, mustFind(t, driver))
	if diff := cmp.Diff(before, readTree(t, s.Dir)); diff != "" {
		t.Errorf("the second time changed (-want +got):\n%s", diff)
	}
}
