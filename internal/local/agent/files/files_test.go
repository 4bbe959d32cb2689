package files

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// sandbox creates the folders of two runs of an executor. The second is the
// latest.
func sandbox(t *testing.T) (s SandboxFiles, dir string) {
	t.Helper()
	s = SandboxFiles{Frameworks: filepath.Join(t.TempDir(), "frameworks")}
	runs := filepath.Join(s.Frameworks, "f", "executors", "e", "runs")
	for run, text := range map[string]string{"c1": "first", "c2": "second"} {
		if err := os.MkdirAll(filepath.Join(runs, run, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(runs, run, "stdout"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir = filepath.Join(runs, "c2")
	if err := os.Symlink(dir, filepath.Join(runs, "latest")); err != nil {
		t.Fatal(err)
	}
	return s, dir
}

const run = "/frameworks/f/executors/e/runs/"

func TestRead(t *testing.T) {
	s, dir := sandbox(t)
	n := func(v uint64) *uint64 { return &v }
	for _, test := range []struct {
		path   string
		offset uint64
		length *uint64
		want   string
	}{
		{run + "latest/stdout", 0, nil, "second"},
		{run + "c1/stdout", 0, nil, "first"},
		{dir + "/stdout", 0, nil, "second"},
		{run + "latest/./sub/../stdout", 0, nil, "second"},
		{run + "latest/stdout", 2, n(3), "con"},
		{run + "latest/stdout", 4, n(100), "nd"},
		{run + "latest/stdout", 0, n(0), ""},
		{run + "latest/stdout", 6, nil, ""},
		{run + "latest/stdout", 1 << 63, nil, ""},
	} {
		size, data, err := s.Read(test.path, test.offset, test.length)
		if err != nil || string(data) != test.want || size < 5 {
			t.Errorf("Read(%s, %d) = %d, %q, %v; want %q", test.path, test.offset, size, data, err, test.want)
		}
	}
}

func TestReadIsCapped(t *testing.T) {
	s, dir := sandbox(t)
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, MaxRead+7), 0o600); err != nil {
		t.Fatal(err)
	}
	size, data, err := s.Read(run+"latest/big", 0, nil)
	if err != nil || size != MaxRead+7 || len(data) != MaxRead {
		t.Errorf("got %d of %d bytes, %v", len(data), size, err)
	}
	if _, data, err := s.Read(run+"latest/big", MaxRead, nil); err != nil || len(data) != 7 {
		t.Errorf("the rest: %d bytes, %v", len(data), err)
	}
}

func TestReadStaysInSandbox(t *testing.T) {
	s, dir := sandbox(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"abs": secret, "rel": "../../../../../../../../../.." + secret, "dir": filepath.Dir(secret), "other": "../c1/stdout",
		"loop": "loop", "dangling": "nowhere",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		run + "latest/abs": ErrInvalid, run + "latest/rel": ErrInvalid, run + "latest/dir/secret": ErrInvalid,
		run + "latest/other": ErrInvalid, run + "latest/loop": ErrInvalid, run + "latest/fifo": ErrInvalid,
		run + "latest/sub": ErrInvalid, run + "latest/dangling": ErrNotFound, run + "latest/none": ErrNotFound,
		run + "latest/../../../../../../.." + secret: ErrNotFound, run + "../../../..": ErrNotFound,
		"/frameworks/f/executors/e/runs": ErrNotFound, secret: ErrNotFound, "": ErrNotFound, "/": ErrNotFound,
		run + "none/stdout": ErrNotFound, "/frameworks/none/executors/e/runs/latest/x": ErrNotFound,
		s.Frameworks + "/../../../etc/passwd": ErrNotFound, "/frameworks/../executors/e/runs/latest/stdout": ErrNotFound,
	} {
		_, data, err := s.Read(path, 0, nil)
		if !errors.Is(err, want) || len(data) > 0 {
			t.Errorf("Read(%s) = %q, %v; want %v", path, data, err, want)
		}
	}
}

func TestLinksInsideSandboxAreFollowed(t *testing.T) {
	s, dir := sandbox(t)
	if err := os.WriteFile(filepath.Join(dir, "sub", "out"), []byte("inner"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"rel": "sub/out", "abs": filepath.Join(dir, "sub", "out"), "dir": filepath.Join(dir, "sub")} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"rel", "abs", "dir/out"} {
		if _, data, err := s.Read(run+"latest/"+path, 0, nil); err != nil || string(data) != "inner" {
			t.Errorf("Read(%s) = %q, %v", path, data, err)
		}
	}
}

func TestListFollowsLinksInsideSandbox(t *testing.T) {
	s, dir := sandbox(t)
	if err := os.WriteFile(filepath.Join(dir, "sub", "out"), []byte("inner"), 0o640); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"file":     "sub/out",
		"folder":   filepath.Join(dir, "sub"),
		"away":     "/etc",
		"other":    "../c1/stdout",
		"dangling": "nowhere",
		"loop":     "loop",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List(run + "latest")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint32{}
	for _, f := range list {
		got[filepath.Base(f.Path)] = f.GetMode()
	}
	if len(got) != 4 || got["file"] != syscall.S_IFREG|0o640 || got["folder"]&syscall.S_IFDIR == 0 || got["sub"]&syscall.S_IFDIR == 0 || got["stdout"] == 0 {
		t.Errorf("listed %v", got)
	}
	if below, err := s.List(run + "latest/folder"); err != nil || len(below) != 1 || below[0].GetSize_() != 5 || below[0].GetMtime() == nil {
		t.Errorf("below a link: %v, %v", below, err)
	}
	if list, err := s.List(run + "latest/file"); err != nil || len(list) > 0 {
		t.Errorf("a file: %v, %v", list, err)
	}
	for path, want := range map[string]error{
		run + "latest/none":  ErrNotFound,
		run + "latest/away":  ErrInvalid,
		run + "latest/../..": ErrNotFound,
		"/etc":               ErrNotFound,
	} {
		if list, err := s.List(path); !errors.Is(err, want) || len(list) > 0 {
			t.Errorf("%s: %v, %v", path, list, err)
		}
	}
}
