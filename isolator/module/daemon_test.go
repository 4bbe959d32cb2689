package module

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/unixsocket"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/socket"
)

// fakeDaemon is the daemon's real server with a fake container manager that records
// calls. It can be stopped and restarted.
type fakeDaemon struct {
	t    *testing.T
	Path string
	stop func()

	mu    sync.Mutex
	calls []string
	more  chan struct{} // closed at the next call
	// setup and refusal are the results of calls; a nil refusal means success.
	setup    containers.LaunchSetup
	refusal  map[string]error
	held     map[string]chan struct{}
	launched containers.LaunchRequest
}

func newFakeDaemon(t *testing.T) *fakeDaemon {
	t.Helper()
	d := &fakeDaemon{
		t:       t,
		Path:    filepath.Join(t.TempDir(), "agent.sock"),
		more:    make(chan struct{}),
		refusal: map[string]error{},
		held:    map[string]chan struct{}{},
		stop:    func() {},
	}
	t.Cleanup(func() { d.stop() })
	return d
}

// start serves until stop is called.
func (d *fakeDaemon) start() *fakeDaemon {
	d.t.Helper()
	l, err := unixsocket.Listen(d.Path)
	if err != nil {
		d.t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(d.t.Output())
	s, err := socket.NewServer(socket.ServerConfig{Containers: d, Devices: noDevices{}, Metrics: http.NotFoundHandler(), UID: os.Geteuid(), Log: log})
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, l) }()
	d.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			d.t.Error(err)
		}
	})
	return d
}

// recordCall records a call and returns its configured error.
func (d *fakeDaemon) recordCall(call, format string, args ...any) error {
	d.mu.Lock()
	d.calls = append(d.calls, call+" "+fmt.Sprintf(format, args...))
	close(d.more)
	d.more = make(chan struct{})
	held, refusal := d.held[call], d.refusal[call]
	d.mu.Unlock()
	if held != nil {
		<-held
	}
	return refusal
}

// setAnswer sets the error of a call; nil lets it succeed.
func (d *fakeDaemon) setAnswer(call string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refusal[call] = err
}

// recordedCalls returns and clears the recorded calls.
func (d *fakeDaemon) recordedCalls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.calls = nil }()
	return d.calls
}

func (d *fakeDaemon) Recover(alive []string) error {
	slices.Sort(alive)
	return d.recordCall("recover", "%v", alive)
}

func (d *fakeDaemon) Prepare(_ context.Context, l containers.LaunchRequest) (containers.LaunchSetup, error) {
	err := d.recordCall("prepare", "%s %v", l.Container, l.Resources)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.launched = l
	return d.setup, err
}

func (d *fakeDaemon) Isolate(container string, pid int) error {
	return d.recordCall("isolate", "%s %d", container, pid)
}

func (d *fakeDaemon) Update(container string, r []allocation.MesosResource) ([]string, error) {
	return d.setup.Devices, d.recordCall("update", "%s %v", container, r)
}

func (d *fakeDaemon) Cleanup(container string) error { return d.recordCall("cleanup", "%s", container) }

func (d *fakeDaemon) Status(string) (containers.ContainerStatus, error) {
	return containers.ContainerStatus{}, errors.New("not asked")
}
func (d *fakeDaemon) Devices(string) ([]string, error) { return nil, errors.New("not asked") }
func (d *fakeDaemon) Holders() []gpu.ContainerDevices  { return nil }
func (d *fakeDaemon) Share(context.Context, string) (containers.ContainerShare, error) {
	return containers.ContainerShare{}, errors.New("not asked")
}
func (d *fakeDaemon) Stock() []string { return nil }

// These interfaces are never used.
type (
	unusedDevices = socket.DeviceMonitor
	noDevices     struct{ unusedDevices }
)

// Runs the client against the daemon's real server.
func TestClientAndServer(t *testing.T) {
	d := newFakeDaemon(t).start()
	d.setup = containers.LaunchSetup{
		Devices:     []string{"GPU-a"},
		Nodes:       []containers.DeviceNode{{Path: "/dev/nvidia0", Major: 195}},
		Mounts:      []containers.BindMount{{Source: "/v", Target: "/usr/local/nvidia", ReadOnly: true}},
		Environment: map[string]string{"NVIDIA_VISIBLE_DEVICES": "GPU-a"},
	}
	c := startClient(t, d.Path)
	ok := func(call map[string]any, want string) {
		t.Helper()
		got := c.call(call)
		if got.Kind != "ok" {
			t.Fatalf("%v: got %+v", call, got)
		}
		if diff := cmp.Diff(decodeJSON(t, want), decodeJSON(t, string(got.Value))); diff != "" {
			t.Errorf("%v (-want +got):\n%s", call, diff)
		}
	}
	launch := containers.LaunchRequest{
		Container: "c1.n", Directory: "/s", Rootfs: true, Framework: "f", Executor: "e", Task: "t", Job: "j",
		Resources: []allocation.MesosResource{{Name: "gpu_ids", Set: []string{"GPU-a"}}, {Name: "gpus", Scalar: 1}},
		Image:     containers.ImageSettings{Labels: map[string]string{"a": "b"}, Environment: map[string]string{"C": "d"}},
	}
	resources := []allocation.MesosResource{{Name: "gpus", Scalar: 1}}
	ok(map[string]any{"op": "recover", "body": map[string]any{"containers": []string{"c1", "c2"}}}, `{}`)
	ok(map[string]any{"op": "prepare", "body": launch},
		`{"devices":["GPU-a"],"nodes":[{"path":"/dev/nvidia0","major":195,"minor":0}],"mounts":[{"source":"/v","target":"/usr/local/nvidia","read_only":true}],"environment":{"NVIDIA_VISIBLE_DEVICES":"GPU-a"}}`)
	if diff := cmp.Diff(launch, d.launched); diff != "" {
		t.Errorf("launch (-want +got):\n%s", diff)
	}
	ok(map[string]any{"op": "isolate", "body": map[string]any{"container": "c1", "pid": 7}}, `{}`)
	ok(map[string]any{"op": "update", "body": map[string]any{"container": "c1", "resources": resources}}, `{"devices":["GPU-a"]}`)
	ok(map[string]any{"op": "cleanup", "body": map[string]any{"container": "c1"}}, `{}`)
	want := []string{"recover [c1 c2]", "prepare c1.n [{gpu_ids 0 [GPU-a]} {gpus 1 []}]", "isolate c1 7", "update c1 [{gpus 1 []}]", "cleanup c1"}
	if diff := cmp.Diff(want, d.recordedCalls()); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		err    error
		kind   string
		status int
	}{
		{&allocation.RejectedError{Why: "container c1 wants 2, 1 is free"}, "refused", 409},
		{&containers.UnknownContainerError{Container: "c1"}, "refused", 404},
		{errors.New("write /sys/fs/cgroup: no space"), "broken", 500},
	} {
		d.setAnswer("isolate", tt.err)
		got := c.call(map[string]any{"op": "isolate", "body": map[string]any{"container": "c1", "pid": 7}})
		if got.Kind != tt.kind || got.Status != tt.status {
			t.Errorf("%v: got %+v, want %s with %d", tt.err, got, tt.kind, tt.status)
		}
	}
}
