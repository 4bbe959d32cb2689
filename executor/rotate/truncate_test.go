package rotate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mesos-gpu/internal/testing/testneeds"
)

func truncatePath(t *testing.T, path string, l RotationLimits) error {
	before, _ := os.Stat(path)
	removed, err := Truncate(t.Context(), filepath.Dir(path), filepath.Base(path), l)
	if after, e := os.Stat(path); e == nil && before.Size()-removed > after.Size() {
		t.Errorf("Truncate reports that it removed %d of %d bytes, but %d are left", removed, before.Size(), after.Size())
	}
	return err
}

// heldWriter appends numbered lines to a file until it is stopped, as a process does that
// inherited the file from an agent.
func heldWriter(t *testing.T, path string) (stop func() (lines int)) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	end, ended := make(chan struct{}), make(chan int)
	go func() {
		defer file.Close()
		for n := 0; ; n++ {
			select {
			case <-end:
				ended <- n
				return
			default:
			}
			if _, err := fmt.Fprintf(file, "%08d\n", n); err != nil {
				t.Error(err)
			}
		}
	}()
	return func() int { close(end); return <-ended }
}

// truncateUnder truncates the file repeatedly while another process writes. It returns
// the number of written lines and the numbers of the complete lines that remain.
func truncateUnder(t *testing.T, path string) (written int, there []int) {
	t.Helper()
	stop := heldWriter(t, path)
	const times = 6
	l := RotationLimits{Bytes: 512 << 10, Files: 10000}
	for done := 0; done < times; {
		if err := truncatePath(t, path, l); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(numberedName(path, done+1)); err == nil {
			done++
		}
	}
	written = stop()
	for line := range strings.Lines(strings.Join(files(t, path), "")) {
		if len(line) != 9 {
			continue
		}
		if n, err := strconv.Atoi(line[:8]); err == nil {
			there = append(there, n)
		}
	}
	return written, there
}

func inOrder(t *testing.T, numbers []int) {
	t.Helper()
	for i := range len(numbers) - 1 {
		if numbers[i+1] <= numbers[i] {
			t.Fatalf("line %d comes after line %d", numbers[i+1], numbers[i])
		}
	}
}

// On a file system that can remove the start of a file, every line of a concurrent writer
// is kept exactly once.
func TestTruncateLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout")
	if !collapses(t, path+"-probe") {
		t.Skip("this file system cannot cut off a file's head")
	}
	written, there := truncateUnder(t, path)
	inOrder(t, there)
	if len(there) != written {
		t.Errorf("%d of %d lines are there, want all", len(there), written)
	}
}

func collapses(t *testing.T, path string) bool {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(make([]byte, 16384)); err != nil {
		t.Fatal(err)
	}
	return unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_COLLAPSE_RANGE, 0, 8192) == nil
}

// On other file systems lines written during a copy may be missing or torn, but no line
// is duplicated.
func TestTruncateOnTmpfs(t *testing.T) {
	testneeds.RequireRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("rotate-test", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	written, there := truncateUnder(t, filepath.Join(dir, "stdout"))
	inOrder(t, there)
	t.Logf("%d of %d lines were lost over 6 rotations under a writer without a pause", written-len(there), written)
	if lost := written - len(there); lost*2 > written {
		t.Errorf("%d of %d lines were lost", lost, written)
	}
}

func TestTruncateLeavesSmallFiles(t *testing.T) {
	tests := []struct {
		name   string
		size   int
		limits RotationLimits
		files  []int // sizes, the oldest file first
	}{
		{"small", 8192, RotationLimits{8192, 3}, []int{8192}},
		{"no limit", 9000, RotationLimits{0, 3}, []int{9000}},
		{"one file", 9000, RotationLimits{8192, 1}, []int{0}},
		{"empty head", 20, RotationLimits{10, 2}, []int{20, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "stdout")
			if err := os.WriteFile(path, make([]byte, tt.size), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := truncatePath(t, path, tt.limits); err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, text := range files(t, path) {
				got = append(got, len(text))
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.files) {
				t.Errorf("files are of %v bytes, want %v", got, tt.files)
			}
		})
	}
	if err := truncatePath(t, filepath.Join(t.TempDir(), "none"), RotationLimits{10, 2}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// The oldest files are removed first.
func TestTruncateKeepsTheNewest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout")
	for n := range 5 {
		if err := os.WriteFile(path, []byte(strings.Repeat(fmt.Sprint(n), 20)), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := truncatePath(t, path, RotationLimits{10, 3}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{strings.Repeat("3", 20), strings.Repeat("4", 20), ""}
	if got := files(t, path); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("files hold %q, want %q", got, want)
	}
}

// A task may make its output arbitrarily large with a hole: only the newest part is
// copied.
func TestTruncateSparseFile(t *testing.T) {
	const hole, limit = 1 << 30, 64 << 10
	path := filepath.Join(t.TempDir(), "stdout")
	if err := os.WriteFile(path, []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, hole); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mustWrite(t, file, "new\n")
	if err := truncatePath(t, path, RotationLimits{limit, 3}); err != nil {
		t.Fatal(err)
	}
	old, err := os.Stat(numberedName(path, 1))
	if err != nil || old.Size() > (maxGrowthFactor+1)*limit {
		t.Fatalf("%v bytes were copied (%v), want at most %d", old.Size(), err, (maxGrowthFactor+1)*limit)
	}
	text := strings.Join(files(t, path), "")
	if !strings.HasPrefix(text, "[mesos-gpu: ") || !strings.HasSuffix(text, "\x00new\n") {
		t.Errorf("files begin with %q and end with %q, want what is lost and the newest", text[:20], text[len(text)-8:])
	}
	if info, err := os.Stat(path); err != nil || info.Size() > limit {
		t.Errorf("the file is of %d bytes (%v) still", info.Size(), err)
	}
}

// Truncation stops when its context ends, even during a copy.
func TestTruncateStopsWithContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Truncate(ctx, filepath.Dir(path), "stdout", RotationLimits{64 << 10, 3}); !errors.Is(err, context.Canceled) {
		t.Errorf("copying ended with %v, want %v", err, context.Canceled)
	}
	if got := files(t, path); len(got) != 1 || len(got[0]) != 1<<20 {
		t.Errorf("there are %d files, want the one of before", len(got))
	}
	if _, err := os.Lstat(path + stagedSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy is left behind: %v", err)
	}
}

// The task may also replace a parent folder of the file by a link.
func TestTruncateRejectsLinkedFolders(t *testing.T) {
	sandbox, outside := t.TempDir(), t.TempDir()
	precious := filepath.Join(outside, "stdout")
	if err := os.WriteFile(precious, make([]byte, 20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(sandbox, "containers"), 0o755), os.Symlink(outside, filepath.Join(sandbox, "containers", "id"))); err != nil {
		t.Fatal(err)
	}
	if _, err := Truncate(t.Context(), sandbox, "containers/id/stdout", RotationLimits{10, 1}); err == nil {
		t.Error("a file outside was rotated")
	}
	if info, err := os.Stat(precious); err != nil || info.Size() != 20 {
		t.Errorf("the file outside is of %d bytes (%v)", info.Size(), err)
	}
}
