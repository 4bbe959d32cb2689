package volumemgr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func mustCreate(t testing.TB, s Store, d InstalledDriver) DriverVolume {
	t.Helper()
	v, err := s.Create(context.Background(), d)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCreateVolume(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: filepath.Join(t.TempDir(), "deep/volumes")}
	v := mustCreate(t, s, d)
	var bytes int64
	for _, f := range d.Files {
		bytes += f.Size
		path := filepath.Join(v.Path, f.Dir, f.Name)
		for _, name := range append([]string{f.Name}, f.Links...) {
			got, err := os.ReadFile(filepath.Join(v.Path, f.Dir, name))
			want, wantErr := os.ReadFile(f.Source)
			if err != nil || wantErr != nil || string(got) != string(want) {
				t.Errorf("%s/%s differs from %s: %v, %v", f.Dir, name, f.Source, err, wantErr)
			}
		}
		info, err := os.Lstat(path)
		source, sourceErr := os.Lstat(f.Source)
		if err != nil || sourceErr != nil || !os.SameFile(info, source) {
			t.Errorf("%s is no hard link to %s", path, f.Source)
		}
	}
	want := DriverVolume{Name: "nvidia_" + v535, Version: v535, Path: filepath.Join(s.Dir, "nvidia_"+v535), Files: len(d.Files), Bytes: bytes}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, path := range []string{"bin/nvidia-smi", "lib64/libnvidia-ml.so.1", "lib64/libcuda.so", "lib/libcuda.so.1"} {
		if _, err := os.Stat(filepath.Join(v.Path, path)); err != nil {
			t.Error(err)
		}
	}
	for _, dir := range []string{"", "bin", "lib", "lib64"} {
		if info, err := os.Stat(filepath.Join(v.Path, dir)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("folder %q: %v, %v; want mode 0755", dir, info, err)
		}
	}
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]DriverVolume{v}, list); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

// For any driver files, a second Create changes no inode, time or mode.
func TestCreateTwiceChangesNothing(t *testing.T) {
	source := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(source, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		d := InstalledDriver{Version: rapid.StringMatching(`[1-9][0-9]{2}(\.[0-9]{1,3}){1,2}`).Draw(r, "version")}
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`lib[a-z]{1,8}\.so`), 0, 8, rapid.ID[string]).Draw(r, "names")
		for i, name := range names {
			text := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(r, "text")
			f := DriverFile{
				Source: filepath.Join(dir, fmt.Sprint(i)), Name: name + "." + d.Version, Size: int64(len(text)),
				Dir: rapid.SampledFrom(volumeDirs()).Draw(r, "dir"),
			}
			if rapid.Bool().Draw(r, "linked") {
				f.Links = []string{name + ".1", name}
			}
			if err := os.WriteFile(f.Source, text, 0o644); err != nil {
				t.Fatal(err)
			}
			d.Files = append(d.Files, f)
		}
		s := Store{Dir: filepath.Join(dir, "volumes")}
		first := mustCreate(t, s, d)
		before := readTree(t, s.Dir)
		if second := mustCreate(t, s, d); second != first {
			r.Errorf("got %v, then %v", first, second)
		}
		if diff := cmp.Diff(before, readTree(t, s.Dir)); diff != "" {
			r.Errorf("the second time changed (-want +got):\n%s", diff)
		}
		if first.Files != len(d.Files) {
			r.Errorf("%d files in the volume, %d in the driver", first.Files, len(d.Files))
		}
	})
}

func TestCreateCompletesTornVolume(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: t.TempDir()}
	v := mustCreate(t, s, d)
	whole := readTree(t, v.Path)
	torn, gone := "lib64/libcuda.so."+v535, "lib64/libnvidia-ml.so."+v535
	// As after a power failure during a copy: a separate file that is too short.
	if err := os.Remove(filepath.Join(v.Path, torn)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(v.Path, torn), []byte("torn"), 0o644); err != nil {
		t.Fatal(err)
	}
	mapped, err := os.Open(filepath.Join(v.Path, torn))
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	for _, path := range []string{gone, "lib64/libcuda.so.1", "lib/libcuda.so"} {
		if err := os.Remove(filepath.Join(v.Path, path)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("elsewhere", filepath.Join(v.Path, "lib/libcuda.so")); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(v.Path, "lib64/.new-libcuda.so."+v535), "left by a crash")
	if err := os.Symlink("left", filepath.Join(v.Path, "lib64/.new-libcuda.so.1")); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(v.Path, "lib64/of-another-user"), "kept")

	mustCreate(t, s, d)
	repaired := readTree(t, v.Path)
	if _, ok := repaired["lib64/of-another-user"]; !ok {
		t.Error("a file was removed from the volume")
	}
	delete(repaired, "lib64/of-another-user")
	ignore := func(all map[string]treeEntry) {
		for name, e := range all { // a link or folder that is created again has another time and inode
			if !e.Mode.IsRegular() {
				e.Mtime, e.Inode, e.Size = 0, 0, 0
				all[name] = e
			}
		}
	}
	ignore(whole)
	ignore(repaired)
	if diff := cmp.Diff(whole, repaired); diff != "" {
		t.Errorf("(-whole +repaired):\n%s", diff)
	}
	text := make([]byte, 10)
	if n, _ := mapped.Read(text); string(text[:n]) != "torn" {
		t.Errorf("who had the torn file open now reads %q", text[:n])
	}
}

func TestCreateRemovesCrashRemains(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: t.TempDir()}
	mustWrite(t, filepath.Join(s.Dir, stagingPrefix+"123/lib64/libcuda.so."+v535), "half")
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("a volume in the making is listed: %v, %v", list, err)
	}
	mustCreate(t, s, d)
	wantEntries(t, s, ".lock", "nvidia_"+v535)
}

func wantEntries(t *testing.T, s Store, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("in the store (-want +got):\n%s", diff)
	}
}

func TestConcurrentCreators(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: t.TempDir()}
	volumes := make([]DriverVolume, 8)
	errs := make([]error, len(volumes))
	var wg sync.WaitGroup
	for i := range volumes {
		wg.Go(func() { volumes[i], errs[i] = s.Create(context.Background(), d) })
	}
	wg.Wait()
	for i := range volumes {
		if errs[i] != nil || volumes[i] != volumes[0] || volumes[i].Files != len(d.Files) {
			t.Errorf("creator %d: %v, %v", i, volumes[i], errs[i])
		}
	}
	wantEntries(t, s, ".lock", "nvidia_"+v535)
}

func TestCreateStopsWithContext(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: t.TempDir()}
	ctx, cancel := context.WithCancelCause(context.Background())
	stopped := errors.New("stopped")
	cancel(stopped)
	if _, err := s.Create(ctx, d); !errors.Is(err, stopped) {
		t.Errorf("got %v, want the context's cause", err)
	}
	wantEntries(t, s, ".lock")
	lock, err := os.Open(filepath.Join(s.Dir, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(ctx, d); !errors.Is(err, stopped) || !strings.Contains(err.Error(), "wait for another creator") {
		t.Errorf("got %v, want the end of the wait for the lock", err)
	}
}

// Set-user-ID programs are not included, not even as a hard link.
func TestSetUserIDIsNotCopied(t *testing.T) {
	dir := simulatedRoot(t)
	modprobe := filepath.Join(dir, "usr/bin/nvidia-modprobe")
	mustWrite(t, modprobe, "#!/bin/sh\necho "+v535+"\n")
	if err := os.Chmod(modprobe, 0o755|fs.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	v := mustCreate(t, Store{Dir: t.TempDir()}, mustFind(t, dir))
	info, err := os.Lstat(filepath.Join(v.Path, "bin/nvidia-modprobe"))
	if err != nil || info.Mode() != 0o755 {
		t.Errorf("got %v, %v; want a plain 0755", info.Mode(), err)
	}
	if info, err := os.Lstat(modprobe); err != nil || info.Mode()&fs.ModeSetuid == 0 {
		t.Errorf("the host's own program changed: %v, %v", info.Mode(), err)
	}
}

func TestCreateErrors(t *testing.T) {
	good := mustFind(t, simulatedRoot(t))
	cases := []struct {
		name   string
		change func(t *testing.T, s Store, d *InstalledDriver)
		want   string
	}{
		{"version", func(_ *testing.T, _ Store, d *InstalledDriver) { d.Version = "../../etc" }, `"../../etc" is not a driver version`},
		{"source gone", func(_ *testing.T, _ Store, d *InstalledDriver) { d.Files[3].Source = "/no/such/file" }, "stat /no/such/file: no such file"},
		{"source that cannot be opened", func(t *testing.T, _ Store, d *InstalledDriver) {
			d.Files[3].Source, d.Files[3].Size = makeSocket(t), 0
		}, ": no such device or address"},
		{"link with a long name", func(_ *testing.T, _ Store, d *InstalledDriver) {
			d.Files[3].Links = []string{strings.Repeat("x", 300)}
		}, "xxx in " + good.Files[3].Dir + ": "},
		{"source of a volume gone", func(t *testing.T, s Store, d *InstalledDriver) {
			mustCreate(t, s, *d)
			d.Files[3].Source = "/no/such/file"
		}, "stat /no/such/file: no such file"},
		{"source changed", func(_ *testing.T, _ Store, d *InstalledDriver) { d.Files[3].Size++ }, "the driver is being replaced"},
		{"a file in its place", func(t *testing.T, s Store, _ *InstalledDriver) {
			mustWrite(t, filepath.Join(s.Dir, "nvidia_"+v535), "x")
		}, "is not a folder"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := good
			d.Files = append([]DriverFile(nil), good.Files...)
			s := Store{Dir: t.TempDir()}
			c.change(t, s, &d)
			_, err := s.Create(context.Background(), d)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "create volume nvidia_") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(s.Dir, stagingPrefix+"*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	if _, err := (Store{Dir: "/dev/null/x"}).Create(context.Background(), good); err == nil {
		t.Error("a store below a file was made")
	}
	if _, err := (Store{Dir: "/dev/null"}).List(); err == nil {
		t.Error("a file was listed as a store")
	}
	if list, err := (Store{Dir: "/no/such/store"}).List(); err != nil || len(list) != 0 {
		t.Errorf("a store that is not there: %v, %v", list, err)
	}
}

func TestRemoveIfExists(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "file"), "x")
	for range 2 { // the second time it does not exist
		if err := removeIfExists(filepath.Join(dir, "file")); err != nil {
			t.Error(err)
		}
	}
	wantEntries(t, Store{Dir: dir})
	mustWrite(t, filepath.Join(dir, "folder/file"), "x")
	if err := removeIfExists(filepath.Join(dir, "folder")); err == nil {
		t.Error("a folder with a file was removed without an error")
	}
}

// makeSocket creates a socket that is set-user-ID, so that it would be opened and copied.
func makeSocket(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "socket")
	if err := unix.Mknod(name, unix.S_IFSOCK|0o755, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o755|fs.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	return name
}

// A file that has the name of a link is kept: it is what programs that have it open use.
func TestCreateKeepsFileWithNameOfLink(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: t.TempDir()}
	link := filepath.Join(mustCreate(t, s, d).Path, "lib64/libcuda.so.1")
	mustRemove(t, link)
	mustWrite(t, link, "a copy")
	mustRemove(t, filepath.Join(filepath.Dir(link), "libcuda.so")) // the volume is not complete
	mustCreate(t, s, d)
	if text, err := os.ReadFile(link); err != nil || string(text) != "a copy" {
		t.Errorf("the file is now %q, %v", text, err)
	}
	if target, err := os.Readlink(filepath.Join(filepath.Dir(link), "libcuda.so")); err != nil || target != "libcuda.so."+v535 {
		t.Errorf("the removed link is now %q, %v", target, err)
	}
}

func TestListIgnoresOtherNames(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	for _, name := range []string{"nvidia_535.1/lib/x", "nvidia_470.57.02/x", "nvidia_new/x", "other/x", stagingPrefix + "1/x"} {
		mustWrite(t, filepath.Join(s.Dir, name), "1234")
	}
	mustWrite(t, filepath.Join(s.Dir, "nvidia_500.1"), "a file")
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	want := []DriverVolume{
		{Name: "nvidia_470.57.02", Version: "470.57.02", Path: filepath.Join(s.Dir, "nvidia_470.57.02"), Files: 1, Bytes: 4},
		{Name: "nvidia_535.1", Version: "535.1", Path: filepath.Join(s.Dir, "nvidia_535.1"), Files: 1, Bytes: 4},
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A volume that cannot be read is an error, so that no other caller takes it for unused or empty.
func TestListReportsUnreadableVolume(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	for outer := s.Dir; outer != os.TempDir() && outer != "/"; outer = filepath.Dir(outer) {
		if err := os.Chmod(outer, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	closed := filepath.Join(s.Dir, "nvidia_535.1")
	mustWrite(t, filepath.Join(closed, "lib64/x"), "1234")
	for _, dir := range []string{"lib64", ""} {
		if err := os.Chmod(filepath.Join(closed, dir), 0); err != nil {
			t.Fatal(err)
		}
		asUnprivileged(t, func() {
			if list, err := s.List(); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "list volumes") {
				t.Errorf("folder %q: got %v, %v", dir, list, err)
			}
		})
		if err := os.Chmod(filepath.Join(closed, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := describeVolume(filepath.Join(s.Dir, "nvidia_1.2")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a volume that does not exist: %v, %v", v, err)
	}
}

// The free space of a store that does not exist yet is that of the folder in which it will be created.
func TestFreeBytesOfFutureStore(t *testing.T) {
	dir := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "not/yet")} {
		got, want := Store{Dir: path}.freeBytes(), int64(fs.Bavail)*fs.Bsize
		if difference := got - want; got == 0 || max(difference, -difference) > want/2 {
			t.Errorf("%s has %d bytes free, want about %d", path, got, want)
		}
	}
	if got := (Store{Dir: "not/yet"}).freeBytes(); got == 0 {
		t.Error("a relative path has no space")
	}
}
