package rotate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"mesos-gpu/internal/testing/testneeds"
)

// asWriter runs the test binary as a program that writes numbered lines until it is
// killed.
const asWriter = "writer-under-test"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asWriter {
		write(os.Args[2])
	}
	os.Exit(m.Run())
}

// crashLimits make the writer rotate after every second line.
var crashLimits = RotationLimits{Bytes: 20, Files: 5}

// write writes forever.
func write(path string) {
	w, err := Open(path, crashLimits)
	for n := 0; err == nil; n++ {
		_, err = fmt.Fprintf(w, "%08d\n", n)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// files returns the contents of all files, the oldest first. A file with two names, as a
// crash may leave it, counts once.
func files(t fileExpectation, path string) (contents []string) {
	var last os.FileInfo
	for n := 200; n >= 0; n-- {
		name := nameOf(path, n)
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && last != nil && os.SameFile(info, last) {
			continue
		}
		data, readErr := os.ReadFile(name)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		contents, last = append(contents, string(data)), info
	}
	return contents
}

// nameOf returns the path of the n-th older file; 0 is the current file.
func nameOf(path string, n int) string {
	if n == 0 {
		return path
	}
	return numberedName(path, n)
}

// fileExpectation is the common part of *testing.T and *rapid.T.
type fileExpectation interface{ Fatal(args ...any) }

func mustOpen(t fileExpectation, path string, l RotationLimits) io.WriteCloser {
	w, err := Open(path, l)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func mustWrite(t fileExpectation, w io.Writer, text string) {
	if n, err := io.WriteString(w, text); err != nil || n != len(text) {
		t.Fatal("wrote ", n, " of ", len(text), " bytes: ", err)
	}
}

// For any writes and any number of reopenings, the files contain the newest output, each
// byte once, in order and within the limits.
func TestRotationLosesAndDoublesNothing(t *testing.T) {
	dir, made := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		made++
		path := filepath.Join(dir, fmt.Sprint("out", made))
		l := RotationLimits{Bytes: rapid.Int64Range(1, 60).Draw(t, "bytes"), Files: rapid.IntRange(1, 6).Draw(t, "files")}
		line := rapid.StringMatching(`[a-z]{0,25}\n?`)
		var all strings.Builder
		w := mustOpen(t, path, l)
		for _, text := range rapid.SliceOfN(line, 1, 60).Draw(t, "texts") {
			mustWrite(t, w, text)
			all.WriteString(text)
			if rapid.IntRange(0, 5).Draw(t, "reopen") == 0 {
				w.Close()
				w = mustOpen(t, path, l)
			}
		}
		w.Close()
		got := files(t, path)
		for _, text := range got {
			if int64(len(text)) > l.Bytes {
				t.Fatalf("a file holds %d bytes, want at most %d", len(text), l.Bytes)
			}
		}
		text := strings.Join(got, "")
		switch {
		case len(got) > l.Files:
			t.Fatalf("there are %d files, want at most %d", len(got), l.Files)
		case len(got) < l.Files && text != all.String(), !strings.HasSuffix(all.String(), text):
			t.Fatalf("files hold %q, want it of %q", text, all.String())
		}
	})
}

func TestLinesStayWhole(t *testing.T) {
	tests := []struct {
		name   string
		limits RotationLimits
		texts  []string
		want   []string
	}{
		{"lines of one write", RotationLimits{10, 3}, []string{"aaa\nbbb\nccc\nddd\n"}, []string{"aaa\nbbb\n", "ccc\nddd\n"}},
		{"a line waits for the next file", RotationLimits{10, 3}, []string{"aaaaaa\n", "bbbbbb\n"}, []string{"aaaaaa\n", "bbbbbb\n"}},
		{"a line longer than a file", RotationLimits{4, 4}, []string{"abcdefghij\nk\n"}, []string{"abcd", "efgh", "ij\n", "k\n"}},
		{"one file", RotationLimits{8, 1}, []string{"aaaaaa\n", "bbbbbb\n"}, []string{"bbbbbb\n"}},
		{"no files is one", RotationLimits{8, 0}, []string{"aaaaaa\n", "bbbbbb\n"}, []string{"bbbbbb\n"}},
		{"no limit", RotationLimits{0, 5}, []string{"aaaaaa\n", "bbbbbb\n"}, []string{"aaaaaa\nbbbbbb\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "stdout")
			w := mustOpen(t, path, tt.limits)
			defer w.Close()
			for _, text := range tt.texts {
				mustWrite(t, w, text)
			}
			if got := files(t, path); strings.Join(got, "|") != strings.Join(tt.want, "|") {
				t.Errorf("files hold %q, want %q", got, tt.want)
			}
		})
	}
}

// A writer is killed twenty times at random moments. Its files have no gap, and a second
// writer continues after them.
func TestRotationAfterKilledWriter(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		path := filepath.Join(t.TempDir(), "stdout")
		cmd := exec.Command(program, asWriter, path)
		cmd.Stderr = t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for { // until the first file is full; then kill at random
			if _, err := os.Stat(numberedName(path, 4)); err == nil {
				break
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		left := checkOrder(t, path, "")
		w := mustOpen(t, path, crashLimits)
		mustWrite(t, w, "\nhere\n")
		w.Close()
		if got := strings.TrimSuffix(strings.Join(files(t, path), ""), "\nhere\n"); !strings.HasSuffix(left, got) || got == "" {
			t.Errorf("after the next writer the files hold %q, want the end of %q", got, left)
		}
	}
}

// checkOrder fails unless the numbered lines are consecutive. The last one may be torn.
func checkOrder(t *testing.T, path, ended string) string {
	t.Helper()
	text := strings.TrimSuffix(strings.Join(files(t, path), ""), ended)
	var first, n int
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines[:len(lines)-1] {
		if _, err := fmt.Sscanf(line, "%08d\n", &n); err != nil || i > 0 && n != first+i {
			t.Errorf("line %d is %q (%v), want number %d, in %q", i, line, err, first+i, files(t, path))
		}
		if i == 0 {
			first = n
		}
	}
	return text
}

// After a crash at any step of a rotation the output is in order, and the next writer
// neither duplicates nor loses any of it.
func TestRotationAfterCrash(t *testing.T) {
	write := func(path, text string) error { return os.WriteFile(path, []byte(text), 0o644) }
	tests := []struct {
		name  string
		state func(path string) error
	}{
		{"the next file is made", func(path string) error {
			return errors.Join(write(path, "two\n"), write(path+".1", "one\n"), write(path+stagedSuffix, ""))
		}},
		{"the older ones have moved", func(path string) error { return errors.Join(write(path, "two\n"), write(path+".2", "one\n")) }},
		{"the old file has two names", func(path string) error {
			return errors.Join(write(path, "two\n"), write(path+".2", "one\n"), os.Link(path, path+".1"))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "stdout")
			if err := tt.state(path); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(files(t, path), ""); got != "one\ntwo\n" {
				t.Errorf("files read %q in order, want one and two", got)
			}
			w := mustOpen(t, path, RotationLimits{6, 4})
			defer w.Close()
			mustWrite(t, w, "three\n")
			mustWrite(t, w, "four\n")
			var got []string
			for n := 4; n >= 0; n-- {
				if data, err := os.ReadFile(nameOf(path, n)); err == nil {
					got = append(got, string(data))
				}
			}
			if want := "one\n|two\n|three\n|four\n"; strings.Join(got, "|") != want {
				t.Errorf("files hold %q, want %q", got, want)
			}
		})
	}
}

// A reader that follows the file by name, like tail -F, reads every byte.
func TestReaderFollowsRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout")
	w := mustOpen(t, path, RotationLimits{Bytes: 1000, Files: 10000})
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 1)
	go func() {
		var all strings.Builder
		for n := range 5000 {
			line := fmt.Sprintf("line %d\n", n)
			all.WriteString(line)
			if _, err := io.WriteString(w, line); err != nil {
				t.Error(err)
			}
		}
		w.Close()
		ended <- all.String()
	}()
	var got strings.Builder
	want := ""
	for {
		retired := filePosition(t, path, file) > 0 // determined before the file is read to its end
		if _, err := io.Copy(&got, file); err != nil {
			t.Fatal(err)
		}
		switch {
		case retired:
			file = next(t, path, file)
		case want != "":
			file.Close()
			if got.String() != want {
				t.Errorf("the follower read %d bytes, want the %d written", got.Len(), len(want))
			}
			return
		default:
			select {
			case want = <-ended:
			default:
			}
		}
	}
}

// filePosition returns the number of an open file; 0 is the current one.
func filePosition(t *testing.T, path string, file *os.File) int {
	t.Helper()
	mine, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for again := 0; again < 3; again++ { // the file may be renamed during the search
		for n := range 200 {
			info, err := os.Stat(nameOf(path, n))
			if n == 0 && err != nil {
				t.Fatalf("there is a moment without a present file: %v", err)
			}
			if err == nil && os.SameFile(info, mine) {
				return n
			}
		}
	}
	t.Fatal("the file that is read is in no place")
	return 0
}

// next opens the file that follows the given one.
func next(t *testing.T, path string, file *os.File) *os.File {
	t.Helper()
	defer file.Close()
	for {
		n := filePosition(t, path, file)
		after, err := os.Open(nameOf(path, n-1))
		if err == nil && filePosition(t, path, file) == n { // the position did not change meanwhile
			return after
		}
		if err == nil {
			after.Close()
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// On a full disk only the output without space is lost, and a task that watches its
// output is not stopped.
func TestFullDisk(t *testing.T) {
	testneeds.RequireRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("rotate-test", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path, ballast := filepath.Join(dir, "stdout"), filepath.Join(dir, "ballast")
	w := mustOpen(t, path, RotationLimits{Bytes: 4096, Files: 3})
	defer w.Close()
	if err := os.WriteFile(ballast, make([]byte, 60<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	block := strings.Repeat("x", 4095) + "\n"
	mustWrite(t, w, block)
	for range 3 { // each write tries to rotate and fails
		if n, err := io.WriteString(w, "more\n"); n != 0 || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("wrote %d bytes with %v to a full disk, want none and %v", n, err, syscall.ENOSPC)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, w, "again\n")
	if got := strings.Join(files(t, path), ""); got != block+"again\n" {
		t.Errorf("files hold %d bytes, want the block and what came when there was space again: %q", len(got), got[min(len(got), 4096):])
	}
}

// The task may create any file in its sandbox: no file outside is changed, and nothing
// blocks.
func TestLinksAndPipes(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "stdout")
	w := mustOpen(t, path, RotationLimits{Bytes: 4, Files: 3})
	for _, name := range []string{path + stagedSuffix, path + ".1", path + ".2"} {
		if err := os.Symlink(outside, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"aaa\n", "bbb\n", "ccc\n"} {
		mustWrite(t, w, text)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, w, "ddd\n")
	w.Close()
	if got := strings.Join(files(t, path), ""); !strings.HasSuffix(got, "ddd\n") {
		t.Errorf("files hold %q, want what was written after the present one went", got)
	}
	refused := func(kind string) {
		t.Helper()
		if _, err := Open(path, RotationLimits{}); err == nil {
			t.Errorf("a %s was opened", kind)
		}
		if err := truncatePath(t, path, RotationLimits{Bytes: 4, Files: 2}); err == nil {
			t.Errorf("a %s was truncated", kind)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Remove(path), os.Symlink(outside, path)); err != nil {
		t.Fatal(err)
	}
	refused("link")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("pipe")
	if data, err := os.ReadFile(outside); err != nil || string(data) != "precious" {
		t.Errorf("the file outside holds %q (%v)", data, err)
	}
}
