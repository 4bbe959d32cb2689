package volumemgr

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func mustVerify(t *testing.T, s Store, name string) []string {
	t.Helper()
	damage, err := s.Verify(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, d := range damage {
		list = append(list, d.String())
	}
	return list
}

// storeOfCopies creates the driver's volume from copies, as on another file system:
// Create then finds the copied folder.
func storeOfCopies(t *testing.T, s Store, d InstalledDriver) DriverVolume {
	t.Helper()
	v := mustCreate(t, s, d)
	m, err := s.Inspect(v.Name)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range d.Files {
		path := filepath.Join(v.Path, f.volumePath())
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(f.Source)
		if err != nil {
			t.Fatal(err)
		}
		mustWrite(t, path+".copy", string(text))
		if err := os.Chtimes(path+".copy", time.Time{}, info.ModTime()); err != nil {
			t.Fatal(err)
		}
		mustMove(t, path+".copy", path)
		at := slices.IndexFunc(m.Files, func(e ManifestEntry) bool { return e.Path == d.Files[i].volumePath() })
		m.Files[at].How = Copied
	}
	if err := writeManifest(v.Path, m); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVerifyFindsDamage(t *testing.T) {
	cuda := "lib64/libcuda.so." + v535
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, volume string)
		want   []string
	}{
		{"whole", func(*testing.T, string) {}, nil},
		{"missing", func(t *testing.T, v string) { mustRemove(t, filepath.Join(v, cuda)) }, []string{cuda + " is missing"}},
		{"short", func(t *testing.T, v string) { mustTruncate(t, filepath.Join(v, cuda), 1) }, []string{cuda + " has 1 bytes, want "}},
		{"folder", func(t *testing.T, v string) {
			mustRemove(t, filepath.Join(v, cuda))
			if err := os.Mkdir(filepath.Join(v, cuda), 0o755); err != nil {
				t.Fatal(err)
			}
		}, []string{cuda + " is not a regular file"}},
		{"flipped bit, time restored", func(t *testing.T, v string) { flipByte(t, filepath.Join(v, cuda)) }, []string{cuda + " has the digest "}},
		{"link gone", func(t *testing.T, v string) { mustRemove(t, filepath.Join(v, "lib/libcuda.so.1")) },
			[]string{"lib/libcuda.so.1 is no link to libcuda.so." + v535}},
		{"link elsewhere", func(t *testing.T, v string) {
			mustRemove(t, filepath.Join(v, "lib/libcuda.so"))
			mustLink(t, "/etc/passwd", filepath.Join(v, "lib/libcuda.so"))
		}, []string{"lib/libcuda.so is no link to "}},
		{"no manifest", func(t *testing.T, v string) { mustRemove(t, filepath.Join(v, manifestName)) }, []string{"manifest.json is missing or torn"}},
		{"torn manifest", func(t *testing.T, v string) { mustTruncate(t, filepath.Join(v, manifestName), 100) }, []string{"manifest.json is missing or torn"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := mustFind(t, simulatedRoot(t))
			s := Store{Dir: t.TempDir()}
			v := storeOfCopies(t, s, d)
			if got := mustVerify(t, s, v.Name); got != nil {
				t.Fatalf("a new volume: %v", got)
			}
			c.damage(t, v.Path)
			got := mustVerify(t, s, v.Name)
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if again := mustVerify(t, s, v.Name); !slices.Equal(got, again) {
				t.Errorf("verify changed what it verifies: %q, then %q", got, again)
			}
			if _, _, err := s.Repair(context.Background(), d); (err != nil) != (c.name == "folder") {
				t.Errorf("repair: %v", err)
			}
			if got := mustVerify(t, s, v.Name); (got != nil) != (c.name == "folder") {
				t.Errorf("after repair: %q", got)
			}
		})
	}
}

func mustRemove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func mustTruncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// flipByte flips one bit in place and restores the modification time, as a faulty disk
// does.
func flipByte(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{b[0] ^ 1}, 10); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// A program that has mapped a damaged library keeps that file: the repaired library is
// another file with the same name.
func TestRepairKeepsMappedFiles(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: t.TempDir()}
	v := storeOfCopies(t, s, d)
	mustVerify(t, s, v.Name) // computes the digests
	path := filepath.Join(v.Path, "lib64/libcuda.so."+v535)
	flipByte(t, path)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := unix.Mmap(int(f.Fd()), 0, len(before), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(mapped); err != nil {
			t.Error(err)
		}
	}()
	_, repaired, err := s.Repair(context.Background(), d)
	if err != nil || len(repaired) != 1 {
		t.Fatalf("repaired %v, %v", repaired, err)
	}
	if string(mapped) != string(before) {
		t.Error("the mapped file changed")
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) == string(before) {
		t.Errorf("the name still leads to the damaged file: %v", err)
	}
}

// Damage to the driver's own files cannot be repaired from the driver.
func TestRepairRefusesDamagedHardLink(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: t.TempDir()}
	v := mustCreate(t, s, d)
	mustVerify(t, s, v.Name)
	flipByte(t, filepath.Join(v.Path, "lib64/libcuda.so."+v535))
	_, damage, err := s.Repair(context.Background(), d)
	if err == nil || !strings.Contains(err.Error(), "is the driver's own file") || len(damage) != 1 {
		t.Errorf("got %v, %v", damage, err)
	}
}

// A hard-linked file is not read when it is added. Its digest is computed by the first
// Verify and kept by later calls of Create until the driver changes the file.
func TestDigestOfLinkedFiles(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: t.TempDir()}
	v := mustCreate(t, s, d)
	digests := func() (n int) {
		m, err := s.Inspect(v.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range m.Files {
			if e.How != Linked {
				t.Errorf("%s came in as %s", e.Path, e.How)
			}
			if e.SHA256 != "" {
				n++
			}
		}
		return n
	}
	if n := digests(); n != 0 {
		t.Errorf("%d files were read", n)
	}
	if got := mustVerify(t, s, v.Name); got != nil {
		t.Error(got)
	}
	mustCreate(t, s, d)
	if n := digests(); n != len(d.Files) {
		t.Errorf("%d digests, want %d", n, len(d.Files))
	}
	source := d.Files[0].Source
	if err := os.Chtimes(source, time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, s, d)
	if n := digests(); n != len(d.Files)-1 {
		t.Errorf("%d digests after the driver changed a file, want %d", n, len(d.Files)-1)
	}
}

// Without a digest, a hard-linked file is valid while its modification time is unchanged.
func TestVerifyFileChangedBeforeFirstRead(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: t.TempDir()}
	v := mustCreate(t, s, d)
	if err := os.Chtimes(d.Files[0].Source, time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	want := []string{d.Files[0].volumePath() + " was changed after it was added"}
	if diff := cmp.Diff(want, mustVerify(t, s, v.Name)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestVerifyErrors(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	if _, err := s.Verify(context.Background(), "nvidia_1.2"); !errors.Is(err, ErrNoVolume) {
		t.Errorf("no volume: %v", err)
	}
	for _, name := range []string{"", "nvidia_", "../nvidia_1.2", "nvidia_../..", "other"} {
		if _, err := s.Verify(context.Background(), name); err == nil || !strings.Contains(err.Error(), "is not a volume's name") {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := s.Inspect(name); err == nil {
			t.Errorf("%q was inspected", name)
		}
	}
	v := mustCreate(t, s, mustFind(t, simulatedRoot(t)))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Verify(ctx, v.Name); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's end", err)
	}
}

func TestProgressReportsEveryByte(t *testing.T) {
	var read int64
	s := Store{Dir: t.TempDir(), Progress: func(n int64) { read += n }}
	v := mustCreate(t, s, mustFind(t, simulatedRoot(t)))
	if read != 0 {
		t.Errorf("links cost %d bytes of reading", read)
	}
	mustVerify(t, s, v.Name)
	if read != v.Bytes {
		t.Errorf("verify reported %d bytes, the volume has %d", read, v.Bytes)
	}
}

// After an upgrade new tasks get the new volume, and tasks with the old volume keep it
// unchanged.
func TestUpgradeKeepsOldVolume(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	dir := simulatedRoot(t)
	old := mustCreate(t, s, mustFind(t, dir))
	before := readTree(t, old.Path)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := WriteSimulatedDriver(dir, "550.54.15"); err != nil {
		t.Fatal(err)
	}
	v, err := EnsureVolume(context.Background(), DriverSearch{Root: dir}, s)
	if err != nil || v.Name != "nvidia_550.54.15" {
		t.Fatalf("got %v, %v", v, err)
	}
	if diff := cmp.Diff(before, readTree(t, old.Path)); diff != "" {
		t.Errorf("the old volume changed (-before +after):\n%s", diff)
	}
	list, err := s.List()
	if err != nil || len(list) != 2 {
		t.Errorf("listed %v, %v", list, err)
	}
	if got := mustVerify(t, s, old.Name); got != nil {
		t.Errorf("the old volume: %v", got)
	}
}

// A volume of the driver's own files without damage is left as it is.
func TestRepairOfWholeVolume(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: t.TempDir()}
	created := mustCreate(t, s, d)
	v, damage, err := s.Repair(context.Background(), d)
	if err != nil || len(damage) != 0 || v != created {
		t.Errorf("got %v, damage %v, %v, want %v", v, damage, err, created)
	}
}

// A file that cannot be examined is an error, not damage.
func TestVerifyReportsUnreadableFolder(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	v := mustCreate(t, s, mustFind(t, simulatedRoot(t)))
	if err := os.RemoveAll(filepath.Join(v.Path, "lib64")); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(v.Path, "lib64"), "a file")
	if damage, err := s.Verify(context.Background(), v.Name); !errors.Is(err, unix.ENOTDIR) || len(damage) > 0 {
		t.Errorf("got %v, %v, want an error", damage, err)
	}
}

// A volume whose manifest cannot be read is neither listed as whole nor changed.
func TestUnreadableManifestIsAnError(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: t.TempDir()}
	v := mustCreate(t, s, d)
	manifest := filepath.Join(v.Path, manifestName)
	mustRemove(t, manifest)
	if err := os.Mkdir(manifest, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(context.Background(), d); !errors.Is(err, unix.EISDIR) {
		t.Errorf("create: %v", err)
	}
	if _, err := s.Verify(context.Background(), v.Name); !errors.Is(err, unix.EISDIR) {
		t.Errorf("verify: %v", err)
	}
	if _, err := s.Inspect(v.Name); !errors.Is(err, unix.EISDIR) {
		t.Errorf("inspect: %v", err)
	}
	if _, _, err := s.Repair(context.Background(), d); !errors.Is(err, unix.EISDIR) {
		t.Errorf("repair: %v", err)
	}
}

func TestSameFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one", "other"} {
		mustWrite(t, filepath.Join(dir, name), "equal")
	}
	if err := os.Link(filepath.Join(dir, "one"), filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"one", "one", true},
		{"one", "linked", true},
		{"one", "other", false},
		{"one", "missing", false},
		{"missing", "one", false},
		{"missing", "missing", false},
	} {
		if got := sameFile(filepath.Join(dir, c.a), filepath.Join(dir, c.b)); got != c.want {
			t.Errorf("%s and %s: got %t, want %t", c.a, c.b, got, c.want)
		}
	}
}

// A repair creates a volume that does not exist, and one whose folders were removed.
func TestRepairCreatesWhatIsMissing(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: t.TempDir()}
	created, damage, err := s.Repair(context.Background(), d)
	if err != nil || len(damage) != 0 || created.Files != len(d.Files) {
		t.Fatalf("no volume: got %v, damage %v, %v", created, damage, err)
	}
	for _, dir := range volumeDirs() {
		if err := os.RemoveAll(filepath.Join(created.Path, dir)); err != nil {
			t.Fatal(err)
		}
	}
	v, damage, err := s.Repair(context.Background(), d)
	if err != nil || len(damage) < len(d.Files) || v != created {
		t.Errorf("without folders: got %v, %d damaged, %v, want %v", v, len(damage), err, created)
	}
	if got := mustVerify(t, s, v.Name); got != nil {
		t.Error(got)
	}
	d.Version = "../x"
	if _, _, err := s.Repair(context.Background(), d); err == nil || !strings.Contains(err.Error(), "is not a volume's name") {
		t.Errorf("an invalid version: %v", err)
	}
}

// The digest of a file that was replaced while it was read is not stored for the new file.
func TestDigestOfReplacedFileIsNotStored(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	s := Store{Dir: t.TempDir()}
	v := mustCreate(t, s, d)
	read, err := s.Inspect(v.Name)
	if err != nil {
		t.Fatal(err)
	}
	now := read
	now.Files = slices.Clone(read.Files)
	now.Files[0].Size++
	if err := writeManifest(v.Path, now); err != nil {
		t.Fatal(err)
	}
	if err := s.storeDigests(context.Background(), v.Path, read, map[string]string{read.Files[0].Path: "old", read.Files[1].Path: "known"}); err != nil {
		t.Fatal(err)
	}
	stored, err := s.Inspect(v.Name)
	if err != nil || stored.Files[0].SHA256 != "" || stored.Files[1].SHA256 != "known" || stored.Files[2].SHA256 != "" {
		t.Errorf("stored %+v, %v", stored.Files[:3], err)
	}
}
