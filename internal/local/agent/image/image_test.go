package image

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/go-archive"

	"golang.org/x/sys/unix"

	"mesos-gpu/internal/testing/testneeds"
)

type entry struct {
	name, link, data string
	kind             byte
	mode             int64
	uid              int
	xattr            string
}

func dir(name string) entry { return entry{name: name, kind: tar.TypeDir, mode: 0o755} }
func file(name, data string) entry {
	return entry{name: name, data: data, kind: tar.TypeReg, mode: 0o644}
}
func symlink(name, to string) entry {
	return entry{name: name, link: to, kind: tar.TypeSymlink, mode: 0o777}
}

func layer(t *testing.T, entries ...entry) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		if e.kind == tar.TypeXGlobalHeader {
			if err := w.WriteHeader(&tar.Header{Typeflag: e.kind, PAXRecords: map[string]string{"comment": "x"}}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, Uid: e.uid, Size: int64(len(e.data))}
		if e.xattr != "" {
			h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": e.xattr}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func writeArchive(t *testing.T, folder, ref string, layers ...v1.Layer) string {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.Config(img, v1.Config{Env: []string{"A=b"}, User: "daemon"})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, ref+".tar")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(file, tag, img); err != nil {
		t.Fatal(err)
	}
	return file
}

// tree returns the names, kinds and contents of the files in a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		switch {
		case d.IsDir():
			all[rel] = "dir"
		case d.Type() == fs.ModeSymlink:
			to, _ := os.Readlink(p)
			all[rel] = "-> " + to
		default:
			text, _ := os.ReadFile(p)
			all[rel] = string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLayersWhiteoutsAndLinks(t *testing.T) {
	testneeds.RequireRoot(t)
	folder, store := t.TempDir(), t.TempDir()
	writeArchive(t, folder, "team/app:v1",
		layer(t, entry{kind: tar.TypeXGlobalHeader}, dir("etc/"), file("etc/keep", "1"), file("etc/drop", "1"), file("etc/change", "1"),
			dir("run/"), dir("var/"), symlink("var/run", "/run"), file("var/run/pid", "7"),
			dir("old/"), file("old/a", "a"), dir("old/sub/"), file("old/sub/b", "b"), file("dirthenfile/x", "x"),
			entry{name: "bin/su", kind: tar.TypeReg, mode: 0o4755, uid: 12, data: "su"}),
		layer(t, file("etc/.wh.drop", ""), file("etc/change", "22"), file("old/new", "n"), file("old/"+archive.WhiteoutOpaqueDir, ""),
			entry{name: "etc/hard", link: "etc/keep", kind: tar.TypeLink}, file("dirthenfile", "now a file"),
			entry{name: "dev/sda", kind: tar.TypeBlock}))
	s := NewStore(folder, store)
	img, err := s.Get(t.Context(), "team/app:v1")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		".": "dir", "etc": "dir", "etc/keep": "1", "etc/change": "22", "etc/hard": "1", "run": "dir", "run/pid": "7",
		"var": "dir", "var/run": "-> /run", "old": "dir", "old/new": "n", "bin": "dir", "bin/su": "su",
		"dirthenfile": "now a file", "dev": "dir",
	}
	if diff := cmp.Diff(want, tree(t, img.Rootfs)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if info, _ := os.Stat(filepath.Join(img.Rootfs, "bin/su")); info.Mode() != fs.ModeSetuid|0o755 {
		t.Errorf("bin/su has mode %v", info.Mode())
	}
	if diff := cmp.Diff([]string{"A=b"}, img.Config.Env); diff != "" {
		t.Error(diff)
	}
	again, err := s.Get(t.Context(), "team/app:v1")
	if err != nil || again.Rootfs != img.Rootfs {
		t.Errorf("second Get: %v, %v", again, err)
	}
	if entries, _ := os.ReadDir(store); len(entries) != 1 {
		t.Errorf("the store has %d entries, want one", len(entries))
	}
}

// Archives cannot write outside their folder.
func TestArchivesStayInTheirFolder(t *testing.T) {
	testneeds.RequireRoot(t)
	outside := t.TempDir()
	for what, entries := range map[string][]entry{
		"dots":         {file("../../../../../.."+outside+"/owned", "x")},
		"symlink":      {symlink("out", outside), file("out/owned", "x")},
		"relative":     {symlink("out", strings.Repeat("../", 20)+outside), file("out/owned", "x")},
		"hard link":    {file("a", "x"), {name: "owned", link: outside + "/secret", kind: tar.TypeLink}},
		"whiteout":     {file(".wh...", "")},
		"through file": {symlink("target", outside+"/owned"), file("target", "x")},
	} {
		t.Run(what, func(t *testing.T) {
			secret := filepath.Join(outside, "secret")
			if err := os.WriteFile(secret, []byte("s"), 0o600); err != nil {
				t.Fatal(err)
			}
			folder, store := t.TempDir(), t.TempDir()
			writeArchive(t, folder, "evil:1", layer(t, entries...))
			img, err := NewStore(folder, store).Get(t.Context(), "evil:1")
			t.Logf("Get: %v, %v", img.Rootfs, err)
			if diff := cmp.Diff(map[string]string{".": "dir", "secret": "s"}, tree(t, outside)); diff != "" {
				t.Errorf("outside (-want +got):\n%s", diff)
			}
			if entries, _ := os.ReadDir(store); err != nil && len(entries) > 0 {
				t.Errorf("the failed unpack left %v", entries)
			}
			if info, err := os.Stat(secret); err != nil || info.Sys() == nil {
				t.Errorf("secret: %v", err)
			}
		})
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	folder := t.TempDir()
	s := NewStore(folder, t.TempDir())
	for name, want := range map[string]string{
		"absent":                 filepath.Join(folder, "absent:latest.tar"),
		"a/b:c":                  filepath.Join(folder, "a/b:c.tar"),
		"localhost:5000/a":       filepath.Join(folder, "localhost:5000/a:latest.tar"),
		"../escape":              "no name of an image",
		"/etc/passwd":            "no name of an image",
		"a//b":                   "no name of an image",
		"app@sha256:0123":        "by digest",
		"":                       "0 bytes",
		"a/../../b":              "no name of an image",
		`a\b`:                    "no name of an image",
		"nul\x00byte":            "no name of an image",
		strings.Repeat("a", 600): "600 bytes",
	} {
		if _, err := s.Get(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", name, err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "junk:1.tar"), []byte("no tar"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "junk:1"); err == nil || !strings.Contains(err.Error(), "junk:1.tar") {
		t.Errorf("junk: %v", err)
	}
	if err := os.Symlink("/etc", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "link/passwd"); err == nil || !strings.Contains(err.Error(), "escapes") {
		t.Errorf("a link out of the archives' folder: %v", err)
	}
}

func TestDamagedLayerIsRejected(t *testing.T) {
	testneeds.RequireRoot(t)
	folder, store := t.TempDir(), t.TempDir()
	path := writeArchive(t, folder, "app:1", layer(t, file("a", strings.Repeat("x", 1000))))
	// The archive of one image with the layer of another.
	other := writeArchive(t, folder, "app:2", layer(t, file("a", strings.Repeat("y", 1000))))
	mixed := mix(t, path, other)
	if err := os.WriteFile(filepath.Join(folder, "app:3.tar"), mixed, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewStore(folder, store).Get(t.Context(), "app:3"); err == nil || !strings.Contains(err.Error(), "sha256") {
		t.Errorf("error %v, want one about the sum", err)
	}
}

// mix returns the archive at one with the layers of the archive at two.
func mix(t *testing.T, one, two string) []byte {
	t.Helper()
	content := map[bool][]byte{}
	for _, p := range []string{one, two} {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r := tar.NewReader(f)
		for h, err := r.Next(); err == nil; h, err = r.Next() {
			if strings.HasSuffix(h.Name, ".tar.gz") {
				content[p == two], _ = io.ReadAll(r)
			}
		}
	}
	text, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	if len(content[true]) != len(content[false]) {
		t.Fatalf("layers of %d and %d bytes cannot be swapped", len(content[false]), len(content[true]))
	}
	return bytes.Replace(text, content[false], content[true], 1)
}

// From an archive with several images the named one is used.
func TestArchiveWithSeveralImages(t *testing.T) {
	testneeds.RequireRoot(t)
	folder := t.TempDir()
	images := map[name.Tag]v1.Image{}
	for _, ref := range []string{"one:1", "two:1"} {
		tag, err := name.NewTag(ref)
		if err != nil {
			t.Fatal(err)
		}
		images[tag], err = mutate.AppendLayers(empty.Image, layer(t, file("name", ref)))
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, ref := range []string{"two:1", "three:1"} {
		if err := tarball.MultiWriteToFile(filepath.Join(folder, ref+".tar"), images); err != nil {
			t.Fatal(err)
		}
	}
	s := NewStore(folder, t.TempDir())
	img, err := s.Get(t.Context(), "two:1")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(img.Rootfs, "name")); string(text) != "two:1" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := s.Get(t.Context(), "three:1"); err == nil {
		t.Error("an archive without the image asked for was taken")
	}
	dir := t.TempDir()
	if err := s.UnpackInto(t.Context(), "two:1", dir); err != nil || len(tree(t, dir)) != 2 {
		t.Errorf("Unpack: %v, %v", tree(t, dir), err)
	}
}

func TestFileCapabilities(t *testing.T) {
	testneeds.RequireRoot(t)
	folder := t.TempDir()
	const value = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	writeArchive(t, folder, "ping:1", layer(t, entry{name: "ping", kind: tar.TypeReg, mode: 0o755, xattr: value}))
	img, err := NewStore(folder, t.TempDir()).Get(t.Context(), "ping:1")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 64)
	n, err := unix.Getxattr(filepath.Join(img.Rootfs, "ping"), "security.capability", got)
	if err != nil || string(got[:n]) != value {
		t.Errorf("capability %x, %v", got[:max(n, 0)], err)
	}
}

func TestRemovePartial(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store[1") // no pattern
	if err := NewStore("", store).RemovePartial(); err != nil {
		t.Errorf("without a store: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(store, ".unpacking-1/etc"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := NewStore("", store).RemovePartial(); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(store); len(entries) != 0 {
		t.Errorf("left %v", entries)
	}
}

// Images are removed once they have not been used for a time, and unpacked again when they are needed.
func TestUnusedImagesAreRemoved(t *testing.T) {
	archives := t.TempDir()
	for _, ref := range []string{"old:1", "used:1"} {
		writeArchive(t, archives, ref, layer(t, file("name", ref)))
	}
	s := NewStore(archives, filepath.Join(t.TempDir(), "store"))
	if err := s.RemoveUnused(time.Now()); err != nil {
		t.Errorf("a store without images: %v", err)
	}
	old, err := s.Get(t.Context(), "old:1")
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old.Rootfs, time.Time{}, before.Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	used, err := s.Get(t.Context(), "used:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(used.Rootfs, time.Time{}, before.Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "used:1"); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveUnused(before); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old.Rootfs); err == nil {
		t.Error("an unused image is kept")
	}
	if _, err := os.Stat(used.Rootfs); err != nil {
		t.Errorf("a used image: %v", err)
	}
	if _, err := s.Get(t.Context(), "old:1"); err != nil {
		t.Errorf("an image that was removed: %v", err)
	}
}
