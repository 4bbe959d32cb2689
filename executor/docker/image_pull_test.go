package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	dockerimage "github.com/docker/docker/api/types/image"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/testing/testimage"
)

// images is a registry that counts requests and delays those for layers until it is
// opened.
type images struct {
	host string
	open chan struct{}
	let  func() // opens the registry

	mu  sync.Mutex
	got map[string]int // number of requests by path
	// Required credentials; empty for none.
	user, password string
}

func newRegistry(t *testing.T) *images {
	t.Helper()
	i := &images{got: map[string]int{}, open: make(chan struct{})}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead && strings.Contains(r.URL.Path, "/manifests/") {
			i.count(r.URL.Path)
		}
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			select {
			case <-i.open:
			case <-r.Context().Done():
			}
		}
		if i.allowed(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	i.let = sync.OnceFunc(func() { close(i.open) })
	t.Cleanup(func() { i.let(); server.Close() })
	i.host = strings.TrimPrefix(server.URL, "http://")
	return i
}

func (i *images) count(path string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.got[path]++
}

func (i *images) requests(part string) (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for path, got := range i.got {
		if strings.Contains(path, part) {
			n += got
		}
	}
	return n
}

// push uploads a busybox image that requests the driver, with a new layer of 4 MiB. It
// returns the image's name and that layer's digest.
func (i *images) push(t *testing.T, repository string) (image, layer string) {
	t.Helper()
	img, err := tarball.ImageFromPath(testimage.BusyboxArchive(t, "mesos-gpu-test:registry", nil, []string{"NVIDIA_VISIBLE_DEVICES=all"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	noise := noiseTar(t, 4<<20)
	added, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(noise)), nil })
	if err != nil {
		t.Fatal(err)
	}
	digest, err := added.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.AppendLayers(img, added); err != nil {
		t.Fatal(err)
	}
	i.upload(t, repository, img)
	return i.host + "/" + repository + ":v1", digest.String()
}

// upload stores an image in the registry's repository with the tag v1.
func (i *images) upload(t *testing.T, repository string, img v1.Image) {
	t.Helper()
	base := "http://" + i.host + "/v2/" + repository
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		digest, digestErr := l.Digest()
		content, contentErr := l.Compressed()
		if err := errors.Join(digestErr, contentErr); err != nil {
			t.Fatal(err)
		}
		send(t, http.MethodPost, base+"/blobs/uploads/?digest="+digest.String(), "application/octet-stream", content)
	}
	config, configErr := img.RawConfigFile()
	digest, digestErr := img.ConfigName()
	manifest, manifestErr := img.RawManifest()
	mediaType, typeErr := img.MediaType()
	if err := errors.Join(configErr, digestErr, manifestErr, typeErr); err != nil {
		t.Fatal(err)
	}
	send(t, http.MethodPost, base+"/blobs/uploads/?digest="+digest.String(), "application/octet-stream", bytes.NewReader(config))
	send(t, http.MethodPut, base+"/manifests/v1", string(mediaType), bytes.NewReader(manifest))
}

func send(t *testing.T, method, url, contentType string, body io.Reader) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s: %s: %s", method, url, answer.Status, text)
	}
}

func noiseTar(t *testing.T, size int64) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: "noise", Mode: 0o644, Size: size, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, rand.Reader, size); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func (h host) removeImage(t *testing.T, image string) {
	t.Helper()
	if _, err := h.engine.ImageRemove(context.Background(), image, dockerimage.RemoveOptions{Force: true, PruneChildren: true}); err != nil {
		t.Error(err)
	}
}

// Eight tasks wait for one image, each with its own client, as separate executors have.
// The engine fetches each layer once.
func TestConcurrentPullsShareLayers(t *testing.T) {
	h, reg := newHost(t), newRegistry(t)
	img, layer := reg.push(t, "many")
	const tasks = 8
	heard := make([]messageLog, tasks)
	var wg sync.WaitGroup
	for n := range tasks {
		wg.Go(func() {
			work := shell(img, "exit 0")
			work.Container.Value += fmt.Sprint("-", n)
			work.OnMessage = heard[n].tell
			r, err := h.Start(t.Context(), work)
			if err != nil {
				t.Error(err)
				return
			}
			if exit, err := r.Wait(t.Context()); err != nil || !exit.Succeeded() {
				t.Errorf("task %s (%v)", exit, err)
			}
			h.nothingLeft(t, work)
		})
	}
	for n := range heard { // all tasks wait before the registry opens
		awaitText(t, heard[n].String, "pulling image "+img)
	}
	reg.let()
	wg.Wait()
	t.Cleanup(func() { h.removeImage(t, img) })
	if got := reg.requests(layer); got != 1 {
		t.Errorf("%d tasks fetched the layer %d times, want once", tasks, got)
	}
	for n := range heard {
		if got := heard[n].String(); !strings.HasPrefix(got, "pulling image "+img) {
			t.Errorf("task %d's people heard %q", n, got)
		}
	}
}

// An image that is removed between two steps of a start is pulled again, or the error
// names it.
func TestImageRemovedBeforeCreate(t *testing.T) {
	h, reg := newHost(t), newRegistry(t)
	reg.let()
	img, layer := reg.push(t, "gone")
	work := shell(img, "exit 0")
	remove := func(image string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) {
			h.removeImage(t, image)
			return h.volume, nil
		}
	}
	t.Run("removed image is pulled again", func(t *testing.T) {
		h.PrepareVolume = remove(img)
		work.Image = img
		if exit, _, _ := h.run(t, work); !exit.Succeeded() {
			t.Errorf("task %s", exit)
		}
		h.removeImage(t, img)
		if got := reg.requests(layer); got != 2 {
			t.Errorf("the layer was fetched %d times, want again after its removal", got)
		}
	})
	t.Run("image that no registry has is reported", func(t *testing.T) {
		work.Image = reg.host + "/gone:v2"
		_, err := h.Start(t.Context(), work)
		for _, want := range []string{"image " + reg.host + "/gone:v2 is not on this agent and cannot be pulled", "manifest", "docker load it there"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error lacks %q: %v", want, err)
			}
		}
		h.nothingLeft(t, work)
	})
	t.Run("removed image of an unreachable registry is reported", func(t *testing.T) {
		h.PrepareVolume = func(context.Context) (string, error) { return h.volume, nil }
		work.Image = img
		h.run(t, work)
		defer h.removeImage(t, img)
		work.Image = "127.0.0.1:1/gone:v1"
		if err := h.engine.ImageTag(t.Context(), img, work.Image); err != nil {
			t.Fatal(err)
		}
		h.PrepareVolume = remove(work.Image)
		_, err := h.Start(t.Context(), work)
		if want := "image 127.0.0.1:1/gone:v1 is not on this agent and cannot be pulled"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
		h.nothingLeft(t, work)
	})
}

func TestPullProgressMessages(t *testing.T) {
	start := time.Unix(1000, 0)
	p := newPullProgress("debian:12")
	steps := []struct {
		after  time.Duration
		id     string
		status string
		got    int64
		total  int64
		want   string
	}{
		{0, "12", "Pulling from library/debian", 0, 0, "pulling image debian:12"},
		{time.Second, "a", statusWaiting, 0, 0, ""},
		{time.Second, "b", statusAlreadyExists, 0, 0, ""},
		{2 * time.Second, "a", statusDownloading, 1 << 20, 10 << 20, ""},
		{5 * time.Second, "a", statusDownloading, 4 << 20, 10 << 20, "pulling image debian:12: 1 of 2 layers, 4 of 10 MiB"},
		{6 * time.Second, "a", statusDownloaded, 0, 0, ""},
		{11 * time.Second, "a", "Extracting", 5 << 20, 20 << 20, "pulling image debian:12: 2 of 2 layers, 10 of 10 MiB"},
		{12 * time.Second, "a", statusPullComplete, 0, 0, ""},
	}
	for _, s := range steps {
		m := pullMessage{ID: s.id, Status: s.status}
		m.ProgressDetail.Current, m.ProgressDetail.Total = s.got, s.total
		if got := p.addMessage(m, start.Add(s.after)); got != s.want {
			t.Errorf("after %s, %s: says %q, want %q", s.after, s.status, got, s.want)
		}
	}
}

// force_pull_image queries the registry even if the image exists locally.
func TestForcePull(t *testing.T) {
	h, reg := newHost(t), newRegistry(t)
	reg.let()
	img, _ := reg.push(t, "force")
	work := shell(img, "exit 0")
	h.run(t, work)
	defer h.removeImage(t, img)
	asked := reg.requests("/manifests/v1")
	h.run(t, work)
	if got := reg.requests("/manifests/v1"); got != asked {
		t.Errorf("the registry got a request for an image that the engine has")
	}
	h.run(t, foreign(work, func(c *mesos.ContainerInfo) { c.Docker.ForcePullImage = ptr(true) }))
	if got := reg.requests("/manifests/v1"); got <= asked {
		t.Errorf("the registry got no request")
	}
}
