package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/executor/image"
	"mesos-gpu/gpu"
)

// The daemon knows most; without it the kernel tells the version, if any.
func TestDriver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	version, _ := os.ReadFile(kernelModule) // most machines have none
	kernel := image.Host{Driver: strings.TrimSpace(string(version))}
	if got := driver(path)(t.Context()); got.Driver != kernel.Driver || got.CUDA != "" {
		t.Errorf("without a daemon: got %+v, want %+v", got, kernel)
	}
	answer := `{"version":"v1","driver":"535.104.05","cuda":"12.2"}`
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/version" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, answer)
	}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	if got := driver(path)(t.Context()); got.Driver != "535.104.05" || got.CUDA != "12.2" {
		t.Errorf("got %+v, want what the daemon says", got)
	}
	answer = `{"version":"v0"}`
	if got := driver(path)(t.Context()); got.Driver != kernel.Driver || got.CUDA != "" {
		t.Errorf("a daemon that knows no driver: got %+v, want %+v", got, kernel)
	}
}

func TestNeedsDriver(t *testing.T) {
	env := map[string]string{"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}
	if needs, err := needsDriver(nil, env, gpu.Host{Driver: "550.54.15", CUDA: "12.4"}); !needs || err != nil {
		t.Errorf("got %v (%v), want that it needs the driver", needs, err)
	}
	if _, err := needsDriver(nil, env, gpu.Host{Driver: "535.104.05", CUDA: "12.2"}); err == nil || image.FaultIn(err.Error()) != image.ByDriver {
		t.Errorf("got %v, want that the image is unfit by the driver", err)
	}
	if needs, err := needsDriver(nil, map[string]string{"PATH": "/bin"}, gpu.Host{}); needs || err != nil {
		t.Errorf("a plain image: got %v (%v)", needs, err)
	}
}
