package workdir

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
)

// writeFolder writes files with their contents into a new folder.
func writeFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// packed packs a folder and returns its digest and entries: mode, kind and content.
func packed(t *testing.T, folder string) (digest string, entries map[string]string) {
	t.Helper()
	p, err := Pack(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := CheckArchive(p.Reader()); err != nil {
		t.Errorf("the scheduler rejects the archive: %v", err)
	}
	unzipped, err := gzip.NewReader(p.Reader())
	if err != nil {
		t.Fatal(err)
	}
	entries = map[string]string{}
	for in := tar.NewReader(unzipped); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		entries[h.Name] = fmt.Sprintf("%o %s%s", h.Mode, content, h.Linkname)
	}
	if p.Files != len(entries) {
		t.Errorf("counted %d files, there are %d", p.Files, len(entries))
	}
	return p.Digest, entries
}

func TestPackLeavesIgnoredFilesOut(t *testing.T) {
	folder := writeFolder(t, map[string]string{
		".gitignore": "*.log\n!keep.log\n/build/\n# comment\n\nsecret\\ file\n", "a.log": "", "keep.log": "k", "build/x": "", "sub/build/x": "x", "sub/b.log": "",
		"secret file": "", ".git/config": "", "sub/.gitignore": "/local\r\n", "sub/local": "", "other/local": "l",
		"both/.gitignore": "*", "both/.mesosgpuignore": "*.bin\n", "both/w.bin": "", "both/kept": "y",
	})
	_, got := packed(t, folder)
	want := map[string]string{
		".gitignore":           "644 *.log\n!keep.log\n/build/\n# comment\n\nsecret\\ file\n",
		"keep.log":             "644 k",
		"sub/":                 "755 ",
		"sub/build/":           "755 ",
		"sub/build/x":          "644 x",
		"sub/.gitignore":       "644 /local\r\n",
		"other/":               "755 ",
		"other/local":          "644 l",
		"both/":                "755 ",
		"both/.gitignore":      "644 *",
		"both/.mesosgpuignore": "644 *.bin\n",
		"both/kept":            "644 y",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestDigestDependsOnContentsOnly checks that times, owners and permissions other than
// execution do not change the digest.
func TestDigestDependsOnContentsOnly(t *testing.T) {
	files := map[string]string{"a": "1", "b/c": "2"}
	one, two := writeFolder(t, files), writeFolder(t, files)
	if err := os.Chmod(filepath.Join(two, "a"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(two, "b/c"), time.Now(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	first, _ := packed(t, one)
	same, _ := packed(t, two)
	if first != same || !job.IsWorkdirDigest(first) {
		t.Errorf("digests %s and %s", first, same)
	}
	if err := os.Chmod(filepath.Join(two, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if changed, entries := packed(t, two); changed == first || entries["a"] != "755 1" {
		t.Errorf("an executable file: %s, %v", changed, entries)
	}
}

func TestPackKeepsLinksAndSkipsSpecialFiles(t *testing.T) {
	folder := writeFolder(t, map[string]string{"a": "1"})
	for link, target := range map[string]string{"in": "a", "out": "/etc/passwd", "up": "../x"} {
		if err := os.Symlink(target, filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, got := packed(t, folder)
	if diff := cmp.Diff(map[string]string{"a": "644 1", "in": "777 a", "out": "777 /etc/passwd", "up": "777 ../x"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPackErrorsNameTheFile(t *testing.T) {
	large := writeFolder(t, map[string]string{"model.bin": ""})
	if err := os.Truncate(filepath.Join(large, "model.bin"), MaxBytes+1); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ folder, want string }{
		"too large":  {large, "at least 512.0 MiB, more than the limit of 512.0 MiB: exclude what the job does not need in .mesosgpuignore"},
		"stdout":     {writeFolder(t, map[string]string{"stdout": ""}), "stdout is the name of a file that a task's sandbox has already"},
		"rotated":    {writeFolder(t, map[string]string{"stderr.1": ""}), "stderr.1 is the name"},
		"no folder":  {filepath.Join(large, "none"), "none"},
		"not folder": {filepath.Join(large, "model.bin"), "model.bin"},
	} {
		p, err := Pack(t.Context(), c.folder)
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if _, got := packed(t, writeFolder(t, map[string]string{"sub/stdout": ""})); got["sub/stdout"] != "644 " {
		t.Errorf("a file in a folder: %v", got)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Pack(ended, large); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

// archive returns a compressed tar of the headers. A file contains its name.
func archive(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, h.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestCheckArchive(t *testing.T) {
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	good := archive(t, tar.Header{Typeflag: tar.TypeDir, Name: "d/"}, file("d/x"), link("l", "d/x"))
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"good":               {good, ""},
		"empty":              {nil, "not compressed by gzip"},
		"not gzip":           {[]byte("PK text"), "not compressed by gzip"},
		"cut off":            {good[:len(good)-20], "unexpected EOF"},
		"absolute":           {archive(t, file("/etc/x")), "not a plain path"},
		"upwards":            {archive(t, file("a/../../x")), "not a plain path"},
		"the folder itself":  {archive(t, tar.Header{Typeflag: tar.TypeDir, Name: "./"}), "not a plain path"},
		"through a link":     {archive(t, link("l", "/etc"), file("l/x")), "l/x is below l, which is no folder"},
		"through a deep one": {archive(t, link("a/l", ".."), file("a/l/b/x")), "is below a/l"},
		"twice":              {archive(t, link("l", "/etc/x"), file("l")), "l is in it twice"},
		"hard link":          {archive(t, file("a"), tar.Header{Typeflag: tar.TypeLink, Name: "b", Linkname: "a"}), "b is neither a file"},
		"device":             {archive(t, tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}), "null is neither a file"},
		"output":             {archive(t, file("stdout")), "stdout is the name"},
		"too deep":           {archive(t, file(strings.Repeat("d/", 200)+"x")), "in 200 folders"},
	} {
		err := CheckArchive(bytes.NewReader(c.data))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestCheckArchiveBoundsUnpackedSize checks that a small archive of a large folder is rejected.
func TestCheckArchiveBoundsUnpackedSize(t *testing.T) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Size: 64 << 30}); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	if err := CheckArchive(&out); !errors.As(err, new(*SizeError)) {
		t.Errorf("got %v", err)
	}
	var many archiveEntries
	many.kinds = map[string]byte{}
	var err error
	for i := 0; i <= MaxFiles && err == nil; i++ {
		err = many.addEntry(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint(i)})
	}
	if err == nil || !strings.Contains(err.Error(), "at least 50001 files, more than the limit of 50000") {
		t.Errorf("too many files: %v", err)
	}
}
