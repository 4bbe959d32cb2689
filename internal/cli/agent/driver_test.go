package agent

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/executor/image"
	"mesos-gpu/gpu"
)

// daemonAt serves a daemon's socket with fixed responses by path.
func daemonAt(t *testing.T, path string, answers map[string]string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, answer)
	}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}

// The daemon provides the most details; without it only the kernel's version is known.
func TestHostReader(t *testing.T) {
	version, _ := os.ReadFile(kernelModule) // absent on most machines
	kernel := image.HostDriver{Driver: strings.TrimSpace(string(version))}
	const (
		knows   = `{"version":"v1","driver":"535.104.05","cuda":"12.2"}`
		devices = `[{"device":{"uuid":"GPU-a","minor":0,"arch":"7.0","brand":"tesla"}},
			{"device":{"uuid":"GPU-b","minor":1,"arch":"8.0","brand":"nvidia"}},
			{"device":{"uuid":"MIG-c","minor":2,"arch":"9.0","brand":"nvidia","mig":{"gi_cap":3,"ci_cap":4}}},
			{"device":{"uuid":"MIG-d","minor":2,"arch":"9.0","brand":"nvidia","mig":{"gi_cap":5,"ci_cap":6}}}]`
	)
	daemon := image.HostDriver{Driver: "535.104.05", CUDA: "12.2"}
	with := func(gpus ...image.HostGPU) image.HostDriver {
		return image.HostDriver{Driver: daemon.Driver, CUDA: daemon.CUDA, GPUs: gpus}
	}
	all := map[string]string{"/v1/version": knows, "/v1/devices": devices}
	for name, c := range map[string]struct {
		answers map[string]string
		reach   gpu.DeviceAccess
		err     error
		want    image.HostDriver
	}{
		"no daemon":        {nil, gpu.DeviceAccess{Confined: true, Minors: []int{0}}, nil, kernel},
		"knows no driver":  {map[string]string{"/v1/version": `{"version":"v0"}`}, gpu.DeviceAccess{}, nil, kernel},
		"one GPU of three": {all, gpu.DeviceAccess{Confined: true, Minors: []int{1}}, nil, with(image.HostGPU{Name: "GPU-b", Arch: "8.0", Brand: "nvidia"})},
		"one slice of two": {all, gpu.DeviceAccess{
			Confined: true,
			Minors:   []int{2},
			Caps:     []int{5, 6},
		}, nil, with(image.HostGPU{Name: "MIG-d", Arch: "9.0", Brand: "nvidia"})},
		"no GPU":              {all, gpu.DeviceAccess{Confined: true}, nil, daemon},
		"unknown devices":     {all, gpu.DeviceAccess{}, nil, daemon},
		"not to be found out": {all, gpu.DeviceAccess{Confined: true, Minors: []int{0}}, errors.New("no /dev"), daemon},
		"daemon has no more":  {map[string]string{"/v1/version": knows}, gpu.DeviceAccess{Confined: true, Minors: []int{0}}, nil, daemon},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "agent.sock")
			if c.answers != nil {
				daemonAt(t, path, c.answers)
			}
			got := hostReaderFor(path, func() (gpu.DeviceAccess, error) { return c.reach, c.err })(t.Context())
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// An image's requirements are checked against the GPUs of its container only.
func TestCheckImage(t *testing.T) {
	h := gpu.Host{Driver: "535.104.05", CUDA: "12.2", Devices: []gpu.Device{
		{UUID: "GPU-k80", Arch: "3.7", Brand: "tesla"}, {UUID: "GPU-a100", Arch: "8.0", Brand: "nvidia"},
	}}
	env := map[string]string{"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_REQUIRE_ARCH": "arch>=7.0", "NVIDIA_REQUIRE_BRAND": "brand=nvidia brand=tesla"}
	for want, devices := range map[string][]string{
		"":                            {"GPU-a100"},
		"ask for another type of GPU": {"GPU-a100", "GPU-k80"},
	} {
		err := checkImage(nil, env, devices, h)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("on %v: got %v, want %q", devices, err, want)
		}
	}
	err := checkImage(nil, env, []string{"GPU-k80"}, h)
	if err == nil ||
		!strings.Contains(err.Error(),
			"it wants arch>=7.0 (NVIDIA_REQUIRE_ARCH), the agent has driver 535.104.05 with CUDA 12.2, GPU-k80 of arch 3.7, brand tesla") ||
		strings.Contains(err.Error(), "the job's environment") {
		t.Errorf("got %v", err)
	}
	if err := checkImage(nil, env, []string{"GPU-lost"}, h); err != nil {
		t.Errorf("of a device that is gone nothing is known: %v", err)
	}
}

func TestImageNeedsDriver(t *testing.T) {
	env := map[string]string{"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}
	if needs, err := imageNeedsDriver(nil, env, gpu.Host{Driver: "550.54.15", CUDA: "12.4"}); !needs || err != nil {
		t.Errorf("got %v (%v), want that it needs the driver", needs, err)
	}
	if _, err := imageNeedsDriver(nil, env, gpu.Host{Driver: "535.104.05", CUDA: "12.2"}); image.MismatchCauseOf(err) != image.DriverMismatch {
		t.Errorf("got %v, want that the image is unfit by the driver", err)
	}
	if needs, err := imageNeedsDriver(nil, map[string]string{"PATH": "/bin"}, gpu.Host{}); needs || err != nil {
		t.Errorf("a plain image: got %v (%v)", needs, err)
	}
}
