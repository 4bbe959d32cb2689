// Package testimage builds small container images for tests out of the
// machine's static busybox, and loads them into a Docker engine for the time
// of a test. It needs no registry and no network.
package testimage

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dockerimage "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"mesos-gpu/internal/testing/testneeds"
)

// ImageOption changes the content of an image: its configuration, or files in
// addition to busybox.
type ImageOption func(*imageContent) error

// imageContent is the content of an image that is being built.
type imageContent struct {
	config  v1.Config
	entries []archiveEntry
}

// ChangeConfig changes the image's configuration.
func ChangeConfig(change func(*v1.Config)) ImageOption {
	return func(c *imageContent) error {
		change(&c.config)
		return nil
	}
}

// Cmd sets the image's command. The default is /bin/sh.
func Cmd(argv ...string) ImageOption { return ChangeConfig(func(c *v1.Config) { c.Cmd = argv }) }

// Entrypoint sets the image's entrypoint.
func Entrypoint(argv ...string) ImageOption {
	return ChangeConfig(func(c *v1.Config) { c.Entrypoint = argv })
}

// BusyboxArchive writes a docker-archive tar of a busybox image named ref
// ("NAME" or "NAME:TAG") into a temporary folder and returns its path,
// DIR/NAME:TAG.tar as Mesos's docker_registry folder has it. The image holds
// /bin/busybox and a link for each applet, /etc/passwd, /etc/group and /tmp,
// with these labels and environment entries ("NAME=value").
func BusyboxArchive(t testing.TB, ref string, labels map[string]string, env []string, options ...ImageOption) string {
	t.Helper()
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatalf("image name %s: %v", ref, err)
	}
	img := buildImage(t, labels, env, options)
	repository, _, _ := strings.Cut(ref, ":")
	path := filepath.Join(t.TempDir(), repository+":"+tag.TagStr()+".tar")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(path, tag, img); err != nil {
		t.Fatalf("write image %s: %v", ref, err)
	}
	return path
}

func buildImage(t testing.TB, labels map[string]string, env []string, options []ImageOption) v1.Image {
	t.Helper()
	c := imageContent{config: v1.Config{Labels: labels, Env: env, Cmd: []string{"/bin/sh"}}}
	for _, option := range options {
		if err := option(&c); err != nil {
			t.Fatal(err)
		}
	}
	files, err := rootFS(testneeds.RequireProgram(t, "busybox", "busybox-static"), c.entries)
	if err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", "amd64"
	// The engine treats images with equal content as one. A test of another
	// package could remove that image.
	file.Author = fmt.Sprint("process ", os.Getpid())
	file.Config = c.config
	img, err = mutate.ConfigFile(img, file)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// rootFS returns the image's only layer as a tar archive.
func rootFS(busybox string, more []archiveEntry) ([]byte, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, fmt.Errorf("read busybox: %w", err)
	}
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list applets of %s: %w", busybox, err)
	}
	entries := []archiveEntry{
		{name: "bin/", mode: 0o755},
		{name: "bin/busybox", mode: 0o755, data: program},
		{name: "dev/", mode: 0o755}, {name: "proc/", mode: 0o755}, {name: "sys/", mode: 0o755},
		{name: "etc/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")},
		{name: "etc/group", mode: 0o644, data: []byte("root:x:0:\nnogroup:x:65534:\n")},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755}, {name: "usr/local/", mode: 0o755},
	}
	for applet := range strings.FieldsSeq(string(applets)) {
		if applet != "busybox" {
			entries = append(entries, archiveEntry{name: "bin/" + applet, link: "busybox"})
		}
	}
	return writeArchive(append(entries, more...))
}

// archiveEntry is a file, a folder (its name ends in a slash) or a symbolic link.
type archiveEntry struct {
	name, link string
	mode       int64
	data       []byte
}

func writeArchive(entries []archiveEntry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}
		switch {
		case e.link != "":
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.link, 0o777
		case strings.HasSuffix(e.name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("tar %s: %w", e.name, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, fmt.Errorf("tar %s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("end tar: %w", err)
	}
	return out.Bytes(), nil
}

// LoadImage loads an archive into the engine and removes the image when the
// test ends. It returns the image's name.
func LoadImage(t testing.TB, docker *client.Client, path string) string {
	t.Helper()
	ref, err := archivedName(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answer, err := docker.ImageLoad(ctx, file, client.ImageLoadWithQuiet(true))
	if err != nil {
		t.Fatalf("load image %s: %v", path, err)
	}
	// The image is loaded once the response has been read completely.
	progress, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	answer.Body.Close()
	if err != nil {
		t.Fatalf("load image %s: %v", path, err)
	}
	if _, err := docker.ImageInspect(ctx, ref); err != nil {
		t.Fatalf("load image %s: %v: the engine said %s", path, err, progress)
	}
	t.Cleanup(func() { removeImage(t, docker, ref) })
	return ref
}

// SaveImage writes one of the engine's images to DIR/NAME:TAG.tar in the older of
// the two formats, the only one that Mesos reads.
func SaveImage(t testing.TB, docker *client.Client, ref, dir string) {
	t.Helper()
	r, err := docker.ImageSave(context.Background(), []string{ref})
	if err != nil {
		t.Fatalf("save image %s: %v", ref, err)
	}
	defer r.Close()
	f, err := os.Create(filepath.Join(dir, ref+".tar"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(f, r)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatalf("save image %s: %v", ref, err)
	}
}

func removeImage(t testing.TB, docker *client.Client, ref string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := docker.ImageRemove(ctx, ref, dockerimage.RemoveOptions{Force: true, PruneChildren: true}); err != nil {
		t.Errorf("remove image %s: %v", ref, err)
	}
}

// archivedName returns the name of the archive's first image.
func archivedName(path string) (string, error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(path) })
	if err != nil {
		return "", fmt.Errorf("read image archive %s: %w", path, err)
	}
	if len(manifest) == 0 || len(manifest[0].RepoTags) == 0 {
		return "", fmt.Errorf("image archive %s names no image", path)
	}
	return manifest[0].RepoTags[0], nil
}
