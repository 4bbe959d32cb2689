package volumemgr

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"mesos-gpu/internal/testing/testneeds"
)

// writeFakeProc creates a /proc with this test's own mounts and processes with the given
// mountinfo lines.
func writeFakeProc(t *testing.T, mounts map[string]string) string {
	t.Helper()
	proc := t.TempDir()
	mustWrite(t, filepath.Join(proc, "self/mountinfo"), "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
	mustWrite(t, filepath.Join(proc, "meminfo"), "no process")
	for pid, lines := range mounts {
		mustWrite(t, filepath.Join(proc, pid, "mountinfo"), lines)
	}
	return proc
}

// storeOfThree returns a store with three volumes and a resolved path.
func storeOfThree(t *testing.T) Store {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := Store{Dir: dir}
	for _, v := range []string{"470.57.02", "535.104.05", "550.54.15"} {
		root := t.TempDir()
		if err := WriteSimulatedDriver(root, v); err != nil {
			t.Fatal(err)
		}
		mustCreate(t, s, mustFind(t, root))
	}
	return s
}

func TestCollect(t *testing.T) {
	s := storeOfThree(t)
	const line = "40 30 8:1 %s /usr/local/nvidia ro - ext4 /dev/sda1 rw\n"
	for _, c := range []struct {
		name string
		root string // root of a container's mount
		dev  string
		gone []string
	}{
		{"no user", "", "8:1", []string{"nvidia_470.57.02", "nvidia_535.104.05"}},
		{"the volume", s.Dir + "/nvidia_470.57.02", "8:1", []string{"nvidia_535.104.05"}},
		{"one file of it", s.Dir + "/nvidia_470.57.02/lib64/libcuda.so.470.57.02", "8:1", []string{"nvidia_535.104.05"}},
		{"one whose name begins alike", s.Dir + "/nvidia_470.57.02.1", "8:1", []string{"nvidia_470.57.02", "nvidia_535.104.05"}},
		{"all volumes", s.Dir, "8:1", []string{"nvidia_470.57.02", "nvidia_535.104.05"}},
		{"another disk", s.Dir + "/nvidia_470.57.02", "8:2", []string{"nvidia_470.57.02", "nvidia_535.104.05"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
			if c.root != "" {
				lines += strings.Replace(fmt.Sprintf(line, c.root), "8:1", c.dev, 1)
			}
			gc := CollectOptions{procRoot: writeFakeProc(t, map[string]string{"42": lines}), Keep: []string{"550.54.15"}, DryRun: true}
			removed, kept, err := s.Collect(context.Background(), gc)
			if err != nil {
				t.Fatal(err)
			}
			var gone []string
			for _, v := range removed {
				gone = append(gone, v.Name)
			}
			if diff := cmp.Diff(c.gone, gone); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(removed)+len(kept) != 3 || kept[len(kept)-1].Why != "is of the driver that runs" {
				t.Errorf("kept %v", kept)
			}
		})
	}
	if list, _ := s.List(); len(list) != 3 {
		t.Errorf("a dry run left %v", list)
	}
	gc := CollectOptions{procRoot: writeFakeProc(t, nil), Users: func(context.Context) ([]string, error) {
		return []string{"/etc", s.Dir + "/nvidia_470.57.02/lib64"}, nil
	}}
	removed, kept, err := s.Collect(context.Background(), gc)
	if err != nil || len(removed) != 2 || len(kept) != 1 || kept[0].Why != "belongs to a container that may start again" {
		t.Errorf("removed %v, kept %v, %v", removed, kept, err)
	}
	wantEntries(t, s, ".lock", "nvidia_470.57.02")
}

// On any error nothing is removed.
func TestCollectKeepsVolumesOnError(t *testing.T) {
	s := storeOfThree(t)
	unsure := errors.New("engine is away")
	for name, gc := range map[string]CollectOptions{
		"no engine":    {procRoot: writeFakeProc(t, nil), Users: func(context.Context) ([]string, error) { return nil, unsure }},
		"no proc":      {procRoot: "/no/such/proc"},
		"torn proc":    {procRoot: writeFakeProc(t, map[string]string{"42": "40 30 8:1\n"})},
		"unlike mount": {procRoot: writeFakeProc(t, map[string]string{"42": "a b c d e f g h i\n"})},
	} {
		if removed, _, err := s.Collect(context.Background(), gc); err == nil || len(removed) > 0 {
			t.Errorf("%s: removed %v, %v", name, removed, err)
		}
	}
	wantEntries(t, s, ".lock", "nvidia_470.57.02", "nvidia_535.104.05", "nvidia_550.54.15")
	if removed, kept, err := (Store{Dir: "/no/such/store"}).Collect(context.Background(), CollectOptions{}); err != nil || removed != nil || kept != nil {
		t.Errorf("no store: %v, %v, %v", removed, kept, err)
	}
}

// A process that ends while the mounts are read mounts nothing.
func TestCollectIgnoresEndedProcesses(t *testing.T) {
	s := storeOfThree(t)
	proc := writeFakeProc(t, map[string]string{"43": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"})
	if err := os.Mkdir(filepath.Join(proc, "42"), 0o755); err != nil {
		t.Fatal(err)
	}
	if removed, _, err := s.Collect(context.Background(), CollectOptions{procRoot: proc, Keep: []string{"550.54.15"}}); err != nil || len(removed) != 2 {
		t.Errorf("removed %v, %v", removed, err)
	}
}

// After a crash between renaming and removing a volume, the next collection removes it,
// or restores its name if it is mounted.
func TestCollectFinishesInterruptedRemoval(t *testing.T) {
	s := storeOfThree(t)
	for _, v := range []string{"470.57.02", "535.104.05"} {
		mustMove(t, filepath.Join(s.Dir, volumePrefix+v), filepath.Join(s.Dir, removingPrefix+volumePrefix+v))
	}
	mounts := fmt.Sprintf("40 30 8:1 %s/%snvidia_470.57.02 /usr/local/nvidia ro - ext4 /dev/sda1 rw\n", s.Dir, removingPrefix) +
		fmt.Sprintf("41 30 8:1 %s/nvidia_470.57.02 /usr/local/nvidia ro - ext4 /dev/sda1 rw\n", s.Dir)
	_, kept, err := s.Collect(context.Background(), CollectOptions{procRoot: writeFakeProc(t, map[string]string{"42": mounts}), Keep: []string{"550.54.15"}})
	if err != nil || len(kept) != 2 || !strings.Contains(kept[0].Why, "is mounted at /usr/local/nvidia, as process 42 sees it") {
		t.Errorf("kept %v, %v", kept, err)
	}
	wantEntries(t, s, ".lock", "nvidia_470.57.02", "nvidia_550.54.15")
}

func TestRemoveVolume(t *testing.T) {
	s := storeOfThree(t)
	gc := CollectOptions{procRoot: writeFakeProc(t, nil), Keep: []string{"550.54.15"}}
	if err := s.Remove(context.Background(), "nvidia_470.57.02", gc); err != nil {
		t.Error(err)
	}
	if err := s.Remove(context.Background(), "nvidia_470.57.02", gc); !errors.Is(err, ErrNoVolume) {
		t.Errorf("a second time: %v", err)
	}
	if err := s.Remove(context.Background(), "nvidia_550.54.15", gc); err == nil || !strings.Contains(err.Error(), "it is of the driver that runs") {
		t.Errorf("the running driver's: %v", err)
	}
	if err := s.Remove(context.Background(), "../x", gc); err == nil {
		t.Error("a path was taken for a name")
	}
	wantEntries(t, s, ".lock", "nvidia_535.104.05", "nvidia_550.54.15")
}

// A volume that is mounted only in another mount namespace, as in containers, is kept. It
// is removed after the process has ended.
func TestRootCollectChecksOtherMountNamespaces(t *testing.T) {
	testneeds.RequireRoot(t)
	unshare := testneeds.RequireProgram(t, "unshare", "util-linux")
	s := storeOfThree(t)
	inside := t.TempDir()
	container := exec.Command(unshare, "--mount", "--propagation", "private", "sh", "-c",
		`mount --bind "$1" "$2" && echo mounted && read end`, "sh", filepath.Join(s.Dir, "nvidia_470.57.02"), inside)
	end, err := container.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := container.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := container.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || said != "mounted\n" {
		t.Skipf("needs to mount in a namespace of its own: %q, %v", said, err)
	}
	removed, kept, err := s.Collect(context.Background(), CollectOptions{})
	if err != nil || len(removed) != 2 || len(kept) != 1 || !strings.Contains(kept[0].Why, "is mounted at "+inside) {
		t.Errorf("removed %v, kept %v, %v", removed, kept, err)
	}
	if err := end.Close(); err != nil {
		t.Error(err)
	}
	_ = container.Wait() // its exit status does not matter
	if removed, _, err := s.Collect(context.Background(), CollectOptions{}); err != nil || len(removed) != 1 {
		t.Errorf("after its end: removed %v, %v", removed, err)
	}
	if _, err := os.Stat(s.Dir); err != nil {
		t.Error(err)
	}
	wantEntries(t, s, ".lock")
}

// A volume that a container mounts while it is being removed gets its name back.
func TestCollectRestoresVolumeThatIsMountedMeanwhile(t *testing.T) {
	s := storeOfThree(t)
	mount := fmt.Sprintf("40 30 8:1 %s/%snvidia_470.57.02 /usr/local/nvidia ro - ext4 /dev/sda1 rw\n", s.Dir, removingPrefix) // found after the rename only
	removed, kept, err := s.Collect(context.Background(), CollectOptions{procRoot: writeFakeProc(t, map[string]string{"42": mount})})
	if err != nil || len(removed) != 2 || len(kept) != 1 || kept[0].Name != "nvidia_470.57.02" || !strings.Contains(kept[0].Why, "as process 42 sees it") {
		t.Errorf("removed %v, kept %v, %v", removed, kept, err)
	}
	wantEntries(t, s, ".lock", "nvidia_470.57.02")
}

// A dry run does not complete a removal that a crash interrupted.
func TestDryRunKeepsInterruptedRemoval(t *testing.T) {
	s := storeOfThree(t)
	mustMove(t, filepath.Join(s.Dir, "nvidia_470.57.02"), filepath.Join(s.Dir, removingPrefix+"nvidia_470.57.02"))
	gc := CollectOptions{procRoot: writeFakeProc(t, nil), Keep: []string{"550.54.15"}, DryRun: true}
	if removed, kept, err := s.Collect(context.Background(), gc); err != nil || len(removed) != 1 || len(kept) != 1 {
		t.Errorf("removed %v, kept %v, %v", removed, kept, err)
	}
	wantEntries(t, s, ".lock", removingPrefix+"nvidia_470.57.02", "nvidia_535.104.05", "nvidia_550.54.15")
}

// While the mounts cannot be read, an interrupted removal is not completed.
func TestCollectKeepsInterruptedRemovalOnError(t *testing.T) {
	s := storeOfThree(t)
	for _, v := range []string{"470.57.02", "535.104.05", "550.54.15"} {
		mustMove(t, filepath.Join(s.Dir, volumePrefix+v), filepath.Join(s.Dir, removingPrefix+volumePrefix+v))
	}
	if _, _, err := s.Collect(context.Background(), CollectOptions{procRoot: "/no/such/proc"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want an error", err)
	}
	wantEntries(t, s, ".lock", removingPrefix+"nvidia_470.57.02", removingPrefix+"nvidia_535.104.05", removingPrefix+"nvidia_550.54.15")
}

// The folder of the store may have any name. Volumes of other stores are not touched.
func TestStoreNamedLikePattern(t *testing.T) {
	d := mustFind(t, simulatedRoot(t))
	outer := t.TempDir()
	for _, name := range []string{"[", "*", "a?[b-c]\\"} {
		other := filepath.Join(outer, "axb")
		mustWrite(t, filepath.Join(other, stagingPrefix+"1/x"), "of another process")
		s := Store{Dir: filepath.Join(outer, name)}
		mustWrite(t, filepath.Join(s.Dir, stagingPrefix+"1/x"), "of a crash")
		mustWrite(t, filepath.Join(s.Dir, removingPrefix+"nvidia_470.57.02/x"), "of a crash")
		v := mustCreate(t, s, d)
		left := filepath.Join(v.Path, "lib64/.new-libcuda.so.1")
		mustWrite(t, left, "of a crash")
		mustRemove(t, filepath.Join(v.Path, "lib64/libcuda.so.1")) // so that the volume is completed
		mustCreate(t, s, d)
		if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a temporary file of a crash is left, %v", name, err)
		}
		if removed, kept, err := s.Collect(context.Background(), CollectOptions{procRoot: writeFakeProc(t, nil), Keep: []string{v535}}); err != nil || len(removed) != 0 || len(kept) != 1 {
			t.Errorf("%s: removed %v, kept %v, %v", name, removed, kept, err)
		}
		wantEntries(t, s, ".lock", v.Name)
		wantEntries(t, Store{Dir: other}, stagingPrefix+"1")
	}
}

// A volume is kept while the one that it replaces is mounted, and others are removed.
func TestCollectKeepsReplacementOfMountedVolume(t *testing.T) {
	s := storeOfThree(t)
	away := filepath.Join(s.Dir, removingPrefix+"nvidia_470.57.02")
	mustWrite(t, filepath.Join(away, "lib64/x"), "old")
	mount := fmt.Sprintf("40 30 8:1 %s /usr/local/nvidia ro - ext4 /dev/sda1 rw\n", away)
	removed, kept, err := s.Collect(context.Background(), CollectOptions{procRoot: writeFakeProc(t, map[string]string{"42": mount}), Keep: []string{"550.54.15"}})
	if err != nil || len(removed) != 1 || len(kept) != 2 || kept[0].Name != "nvidia_470.57.02" || kept[0].Why != "replaces a volume that is still mounted" {
		t.Errorf("removed %v, kept %v, %v", removed, kept, err)
	}
	wantEntries(t, s, ".lock", removingPrefix+"nvidia_470.57.02", "nvidia_470.57.02", "nvidia_550.54.15")
	if removed, _, err := s.Collect(context.Background(), CollectOptions{procRoot: writeFakeProc(t, nil), Keep: []string{"550.54.15"}}); err != nil || len(removed) != 1 {
		t.Errorf("after its end: removed %v, %v", removed, err)
	}
	wantEntries(t, s, ".lock", "nvidia_550.54.15")
}

func TestRemoveReportsErrors(t *testing.T) {
	s := storeOfThree(t)
	if err := s.Remove(context.Background(), "nvidia_470.57.02", CollectOptions{procRoot: "/no/such/proc"}); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "remove volume nvidia_470.57.02: ") {
		t.Errorf("no proc: %v", err)
	}
	if _, _, err := (Store{Dir: "/dev/null"}).Collect(context.Background(), CollectOptions{}); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a file as a store: %v", err)
	}
	proc := writeFakeProc(t, nil)
	mustWrite(t, filepath.Join(proc, "self/mountinfo"), "\n")
	if removed, _, err := s.Collect(context.Background(), CollectOptions{procRoot: proc}); err == nil || len(removed) > 0 {
		t.Errorf("a store on no known file system: removed %v, %v", removed, err)
	}
	openStore(t, s)
	if err := os.Chmod(filepath.Join(s.Dir, "nvidia_535.104.05"), 0); err != nil {
		t.Fatal(err)
	}
	proc = writeFakeProc(t, nil)
	asUnprivileged(t, func() {
		if removed, _, err := s.Collect(context.Background(), CollectOptions{procRoot: proc}); !errors.Is(err, os.ErrPermission) || len(removed) > 0 {
			t.Errorf("a volume that cannot be read: removed %v, %v", removed, err)
		}
	})
	wantEntries(t, s, ".lock", "nvidia_470.57.02", "nvidia_535.104.05", "nvidia_550.54.15")
}

// A folder in which something is mounted cannot be removed. The error names the remains of a crash.
func TestRootRemainsThatCannotBeRemoved(t *testing.T) {
	s := storeOfThree(t)
	mounted := mountDisk(t, "16k")
	for _, prefix := range []string{stagingPrefix, removingPrefix} {
		left := filepath.Join(s.Dir, prefix+"nvidia_1.2")
		mustWrite(t, filepath.Join(left, "x/y"), "")
		if err := unix.Mount(mounted, filepath.Join(left, "x"), "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(filepath.Join(left, "x"), 0); err != nil {
				t.Error(err)
			}
		})
	}
	root := t.TempDir()
	if err := WriteSimulatedDriver(root, "580.1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(context.Background(), mustFind(t, root)); !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "remove staging folders of a crashed process: ") {
		t.Errorf("create: %v", err)
	}
	if removed, _, err := s.Collect(context.Background(), CollectOptions{procRoot: writeFakeProc(t, nil)}); !errors.Is(err, unix.EBUSY) || len(removed) > 0 {
		t.Errorf("collect: removed %v, %v", removed, err)
	}
}

// A volume that was created again keeps its name, although the interrupted removal of the one before is mounted.
func TestCollectKeepsNewVolumeOfInterruptedRemoval(t *testing.T) {
	s := storeOfThree(t)
	away := filepath.Join(s.Dir, removingPrefix+"nvidia_470.57.02")
	mustWrite(t, filepath.Join(away, "lib64/x"), "old")
	mount := fmt.Sprintf("40 30 8:1 %s /usr/local/nvidia ro - ext4 /dev/sda1 rw\n", away)
	gc := CollectOptions{procRoot: writeFakeProc(t, map[string]string{"42": mount}), Keep: []string{"470.57.02", "535.104.05", "550.54.15"}}
	if removed, kept, err := s.Collect(context.Background(), gc); err != nil || len(removed) != 0 || len(kept) != 3 {
		t.Errorf("removed %v, kept %v, %v", removed, kept, err)
	}
	wantEntries(t, s, ".lock", removingPrefix+"nvidia_470.57.02", "nvidia_470.57.02", "nvidia_535.104.05", "nvidia_550.54.15")
}

// Processes of one mount namespace have the same mounts, so the mounts of each namespace are read once.
func TestMountsOfNamespaceAreReadOnce(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	mount := fmt.Sprintf("40 30 8:1 %s /mnt ro - ext4 /dev/sda1 rw\n", dir)
	proc := writeFakeProc(t, map[string]string{"10": mount, "11": mount, "12": mount, "13": mount, "14": mount})
	for pid, space := range map[string]string{"10": "mnt:[1]", "11": "mnt:[1]", "12": "mnt:[2]"} { // those of 13 and 14 cannot be read
		mustLink(t, space, filepath.Join(proc, pid, "ns/mnt"))
	}
	found, err := findMounts(proc, dir)
	want := []volumeMount{{10, "/mnt"}, {12, "/mnt"}, {13, "/mnt"}, {14, "/mnt"}}
	if diff := cmp.Diff(want, found); err != nil || diff != "" {
		t.Errorf("mounts (-want +got), %v:\n%s", err, diff)
	}
	for name, err := range map[string]error{"no folder": lastError(findMounts(proc, "/no/such/folder")), "no proc": lastError(findMounts("/no/such/proc", dir))} {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func lastError(_ []volumeMount, err error) error { return err }
