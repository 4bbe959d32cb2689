package testimage

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"mesos-gpu/internal/testing/testneeds"
)

func TestBusyboxArchive(t *testing.T) {
	labels := map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"}
	path := BusyboxArchive(t, "mesos-gpu-testimage", labels, []string{"A=b"}, Cmd("/bin/true"))
	if got, want := filepath.Base(path), "mesos-gpu-testimage:latest.tar"; got != want {
		t.Errorf("archive is %s, want %s", got, want)
	}
	img, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(labels, file.Config.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"A=b"}, file.Config.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/bin/true"}, file.Config.Cmd); diff != "" {
		t.Errorf("cmd (-want +got):\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	engine := testneeds.RequireDockerEngine(t)
	path := BusyboxArchive(t, "mesos-gpu-testload:v1", nil, nil)
	const want = "mesos-gpu-testload:v1"
	t.Run("present while its test runs", func(t *testing.T) {
		if got := LoadImage(t, engine, path); got != want {
			t.Errorf("loaded %s, want %s", got, want)
		}
		if _, err := engine.ImageInspect(context.Background(), want); err != nil {
			t.Errorf("inspect: %v", err)
		}
	})
	if _, err := engine.ImageInspect(context.Background(), want); err == nil {
		t.Errorf("image %s is still there after its test", want)
	}
}
