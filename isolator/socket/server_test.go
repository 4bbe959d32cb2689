package socket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/kerneltest"
	"mesos-gpu/internal/unixsocket"
	"mesos-gpu/isolator"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/socket"
	"mesos-gpu/isolator/watch"
)

// The real types implement the interfaces.
var (
	_ socket.ContainerManager = (*containers.Manager)(nil)
	_ socket.DeviceMonitor    = (*watch.Watcher)(nil)
	_ containers.Kernel       = (*isolator.Isolator)(nil)
)

func TestMain(m *testing.M) {
	commands := map[string]func([]string){"call-agent": callAgent, "serve-agent": serveAgent, "claim-devices": claimDevices}
	if len(os.Args) > 1 && commands[os.Args[1]] != nil {
		commands[os.Args[1]](os.Args[2:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fakeDevices are two devices without hardware.
type fakeDevices struct {
	mu      sync.Mutex
	states  []watch.DeviceState
	changed chan struct{} // closed at each change
}

func newFakeDevices() *fakeDevices {
	at := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	return &fakeDevices{changed: make(chan struct{}), states: []watch.DeviceState{
		{
			Device: gpu.Device{UUID: "GPU-0", Model: "Tesla V100-SXM2-16GB"}, Condition: gpu.DeviceCondition{Health: gpu.Healthy},
			Sample: gpu.Sample{At: at, Values: map[gpu.SampleField]float64{gpu.Celsius: 40}, Processes: []gpu.DeviceProcess{{PID: 7, MemBytes: 1 << 20}}},
		},
		{Device: gpu.Device{UUID: "GPU-1", Minor: 1}, Condition: gpu.DeviceCondition{Health: gpu.Failed, Reason: "XID 79"}},
	}}
}

func (d *fakeDevices) DeviceStates() []watch.DeviceState {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.states)
}

func (d *fakeDevices) SampleHistory(uuid string) ([]gpu.Sample, bool) {
	for _, s := range d.DeviceStates() {
		if s.Device.UUID == uuid {
			if s.Sample.At.IsZero() {
				return nil, true
			}
			return []gpu.Sample{s.Sample}, true
		}
	}
	return nil, false
}

func (d *fakeDevices) set(uuid string, change func(*gpu.DeviceCondition)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.states {
		if d.states[i].Device.UUID == uuid {
			change(&d.states[i].Condition)
			close(d.changed)
			d.changed = make(chan struct{})
			return nil
		}
	}
	return fmt.Errorf("device %q: %w", uuid, watch.ErrUnknownDevice)
}

func (d *fakeDevices) CordonDevice(uuid, reason string) error {
	return d.set(uuid, func(c *gpu.DeviceCondition) { c.Cordoned, c.Cordon = true, reason })
}

func (d *fakeDevices) UncordonDevice(uuid string) error {
	return d.set(uuid, func(c *gpu.DeviceCondition) { c.Cordoned, c.Cordon = false, "" })
}

func (d *fakeDevices) WatchConditions(ctx context.Context, uuids ...string) (<-chan watch.ConditionUpdate, error) {
	for _, uuid := range uuids {
		if _, ok := d.SampleHistory(uuid); !ok {
			return nil, fmt.Errorf("device %q: %w", uuid, watch.ErrUnknownDevice)
		}
	}
	updates := make(chan watch.ConditionUpdate)
	go func() {
		defer close(updates)
		last := map[string]gpu.DeviceCondition{}
		for {
			d.mu.Lock()
			changed, states := d.changed, slices.Clone(d.states)
			d.mu.Unlock()
			for _, s := range states {
				uuid := s.Device.UUID
				if was, seen := last[uuid]; (seen && was == s.Condition) || len(uuids) > 0 && !slices.Contains(uuids, uuid) {
					continue
				}
				last[uuid] = s.Condition
				select {
				case updates <- watch.ConditionUpdate{Device: uuid, Condition: s.Condition}:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return updates, nil
}

func quiet() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// testDaemon is a server and its dependencies.
type testDaemon struct {
	*socket.DaemonClient
	path       string
	server     *socket.Server
	containers *containers.Manager
	devices    *fakeDevices
	kernel     containers.Kernel
	stop       func()
}

func newContainers(tb testing.TB, kernel containers.Kernel, dir string) *containers.Manager {
	tb.Helper()
	c, err := containers.Open(containers.ManagerConfig{
		Kernel: kernel, Dir: dir, Stock: []string{"GPU-1"}, Log: quiet(),
		DriverVolume: func(context.Context) (string, error) { return "/volume", nil },
		NeedsDriver:  func(_, env map[string]string) (bool, error) { return env["NVIDIA_VISIBLE_DEVICES"] == "all", nil },
	})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func newTestDaemon(tb testing.TB, change func(*socket.ServerConfig)) *testDaemon {
	tb.Helper()
	// The path is short, because a socket's path has at most 107 bytes, and accessible to
	// other users.
	dir, err := os.MkdirTemp("", "agent-api-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	d := &testDaemon{path: filepath.Join(dir, "run", "agent.sock"), devices: newFakeDevices(), kernel: kerneltest.New("GPU-0", "GPU-1")}
	d.containers = newContainers(tb, d.kernel, filepath.Join(dir, "containers"))
	cfg := socket.ServerConfig{
		Containers: d.containers, Devices: d.devices, Version: "v-test", UID: os.Getuid(), Log: quiet(),
		Host:    gpu.Host{Driver: "535.104.05", CUDA: "12.2"},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "mesos_gpu_up 1") }),
	}
	if change != nil {
		change(&cfg)
	}
	if d.server, err = socket.NewServer(cfg); err != nil {
		tb.Fatal(err)
	}
	d.DaemonClient = socket.NewDaemonClient(d.path)
	tb.Cleanup(d.DaemonClient.Close)
	return d
}

// start serves until stop is called or the test ends.
func (d *testDaemon) start(tb testing.TB) {
	tb.Helper()
	l, err := unixsocket.Listen(d.path)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.server.Serve(ctx, l) }()
	d.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("serve: %v", err)
		}
	})
	tb.Cleanup(d.stop)
}

func started(tb testing.TB) *testDaemon {
	tb.Helper()
	d := newTestDaemon(tb, nil)
	d.start(tb)
	return d
}

func check(t *testing.T, what string, err error, got, want any) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	} else if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestContainerLifeCycle(t *testing.T) {
	d := started(t)
	ctx := t.Context()
	launch := containers.LaunchRequest{
		Container: "c", Directory: "/sandbox", Rootfs: true, Framework: "f", Executor: "e", Task: "t", Job: "j",
		Resources: []allocation.MesosResource{{Name: "gpus", Scalar: 2}, {Name: "gpu_ids", Set: []string{"GPU-0"}}},
		Image:     containers.ImageSettings{Environment: map[string]string{"NVIDIA_VISIBLE_DEVICES": "all"}},
	}
	setup, err := d.PrepareContainer(ctx, launch)
	check(t, "prepare", err, setup, containers.LaunchSetup{
		Devices: []string{"GPU-0", "GPU-1"},
		Nodes:   []containers.DeviceNode{{Path: "/dev/nvidia0", Major: 195}, {Path: "/dev/nvidia1", Major: 195, Minor: 1}},
		Mounts:  []containers.BindMount{{Source: "/volume", Target: "/usr/local/nvidia", ReadOnly: true}},
		Environment: map[string]string{
			"NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1", "MESOS_GPU_DEVICES": "GPU-0,GPU-1",
			"PATH":            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/nvidia/bin",
			"LD_LIBRARY_PATH": "/usr/local/cuda/compat:/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
		},
	})
	if err := d.IsolateContainer(ctx, "c", 42); err != nil {
		t.Error(err)
	}
	holder := gpu.ContainerDevices{Container: "c", Framework: "f", Executor: "e", Task: "t", Job: "j", Devices: []string{"GPU-0", "GPU-1"}}
	status, err := d.ContainerStatus(ctx, "c")
	check(t, "status", err, status, containers.ContainerStatus{Holder: holder, Rules: []string{"c 195:0 rw", "c 195:1 rw"}})
	held, err := d.ListContainers(ctx)
	check(t, "containers", err, held, []gpu.ContainerDevices{holder})
	usage, err := d.ContainerUsage(ctx, "c")
	sample := d.devices.DeviceStates()[0].Sample
	check(t, "usage", err, usage, socket.ContainerUsage{Devices: []socket.DeviceSample{{Device: "GPU-0", Sample: &sample}, {Device: "GPU-1"}}})

	got, err := d.UpdateContainer(ctx, "c", []allocation.MesosResource{{Name: "gpus", Scalar: 1}})
	check(t, "update", err, got, []string{"GPU-1"})
	if err := d.RecoverContainers(ctx, []string{"c"}); err != nil {
		t.Error(err)
	}
	if err := d.CleanUpContainer(ctx, "c"); err != nil {
		t.Error(err)
	}
	if err := d.CleanUpContainer(ctx, "c"); err != nil {
		t.Errorf("the second time: %v", err)
	}
	held, err = d.ListContainers(ctx)
	check(t, "containers at last", err, held, []gpu.ContainerDevices{})
}

func TestDevicesListHoldersAndSamples(t *testing.T) {
	d := started(t)
	ctx := t.Context()
	if _, err := d.PrepareContainer(ctx, containers.LaunchRequest{Container: "c", Resources: []allocation.MesosResource{{Name: "gpus", Scalar: 1}}}); err != nil {
		t.Fatal(err)
	}
	states := d.devices.DeviceStates()
	list, err := d.ListDevices(ctx)
	check(t, "devices", err, list, []socket.DeviceInfo{
		{Device: states[0].Device, Condition: states[0].Condition, Holders: []string{}, Sample: &states[0].Sample},
		{Device: states[1].Device, Condition: states[1].Condition, Holders: []string{"c"}, Stock: true},
	})
	samples, err := d.DeviceHistory(ctx, "GPU-0")
	check(t, "history", err, samples, []gpu.Sample{states[0].Sample})
	samples, err = d.DeviceHistory(ctx, "GPU-1")
	check(t, "history of one not measured", err, samples, []gpu.Sample{})
	version, err := d.DaemonVersion(ctx)
	check(t, "version", err, version, "v-test")
	host, err := d.HostDriver(ctx)
	check(t, "host", err, host, gpu.Host{Driver: "535.104.05", CUDA: "12.2"})

	if err := d.CordonDevice(ctx, "GPU-0", "fan"); err != nil {
		t.Fatal(err)
	}
	if c := d.devices.DeviceStates()[0].Condition; c.Cordon != "fan" {
		t.Errorf("cordoned: got %+v", c)
	}
	if err := d.UncordonDevice(ctx, "GPU-0"); err != nil {
		t.Fatal(err)
	}
	if c := d.devices.DeviceStates()[0].Condition; c.Cordoned {
		t.Errorf("uncordoned: got %+v", c)
	}
}

func TestConditionsAreStreamed(t *testing.T) {
	d := newTestDaemon(t, nil)
	d.server.SetPatience(brief)
	d.start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	for change, err := range d.WatchConditions(ctx, "GPU-0") {
		if err != nil {
			seen = append(seen, "end")
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want what ended it", err)
			}
			break
		}
		seen = append(seen, change.Device+" "+change.Condition.Cordon)
		switch len(seen) {
		case 1:
			time.Sleep(brief + brief/5) // a stream outlives the request timeout
			if err := d.CordonDevice(ctx, "GPU-1", "not watched"); err != nil {
				t.Fatal(err)
			}
			if err := d.CordonDevice(ctx, "GPU-0", "fan"); err != nil {
				t.Fatal(err)
			}
		case 2:
			cancel()
		}
	}
	check(t, "changes", nil, seen, []string{"GPU-0 ", "GPU-0 fan", "end"})

	all := 0
	for range d.WatchConditions(t.Context()) {
		if all++; all == 2 {
			break
		}
	}
	if all != 2 {
		t.Errorf("no device named: %d lines, want one for each of 2", all)
	}

	// A daemon that ends closes its streams.
	for _, err := range d.WatchConditions(t.Context(), "GPU-1") {
		if err == nil {
			go d.stop()
			continue
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", err)
		}
	}
}

func TestRejectedCalls(t *testing.T) {
	d := started(t)
	ctx := t.Context()
	status := func(err error) int {
		var said *socket.ResponseError
		if !errors.As(err, &said) || said.Message == "" {
			t.Errorf("got %v, want an answer that says no", err)
			return 0
		}
		return said.Status
	}
	_, unknown := d.ContainerStatus(ctx, "unknown")
	_, usage := d.ContainerUsage(ctx, "unknown")
	_, invalid := d.ContainerStatus(ctx, "../x")
	_, history := d.DeviceHistory(ctx, "GPU-9")
	_, many := d.PrepareContainer(ctx, containers.LaunchRequest{Container: "c", Resources: []allocation.MesosResource{{Name: "gpus", Scalar: 9}}})
	var conditions error
	for _, err := range d.WatchConditions(ctx, "GPU-9") {
		conditions = err
	}
	for what, c := range map[string]struct {
		err  error
		want int
	}{
		"status":      {unknown, 404},
		"usage":       {usage, 404},
		"name":        {invalid, 400},
		"history":     {history, 404},
		"conditions":  {conditions, 404},
		"cordon":      {d.CordonDevice(ctx, "GPU-9", "x"), 404},
		"uncordon":    {d.UncordonDevice(ctx, "GPU-9"), 404},
		"isolate":     {d.IsolateContainer(ctx, "unknown", 1), 404},
		"no reason":   {d.CordonDevice(ctx, "GPU-0", ""), 400},
		"long reason": {d.CordonDevice(ctx, "GPU-0", strings.Repeat("x", 1025)), 400},
		"too many":    {many, 409},
		"process":     {d.IsolateContainer(ctx, "unknown", -1), 400},
	} {
		if got := status(c.err); got != c.want {
			t.Errorf("%s: status %d (%v), want %d", what, got, c.err, c.want)
		}
	}
}

func TestNewServerRequiresSettings(t *testing.T) {
	if _, err := socket.NewServer(socket.ServerConfig{}); err == nil {
		t.Error("a server of nothing")
	}
}

// panickingContainers panics in every call.
type panickingContainers struct{ socket.ContainerManager }

func (panickingContainers) Holders() []gpu.ContainerDevices { panic("out of range") }

func TestPanicEndsOneCall(t *testing.T) {
	d := newTestDaemon(t, func(c *socket.ServerConfig) { c.Containers = panickingContainers{c.Containers} })
	d.start(t)
	var said *socket.ResponseError
	if _, err := d.ListContainers(t.Context()); !errors.As(err, &said) || said.Status != 500 {
		t.Errorf("got %v, want status 500", err)
	}
	if _, err := d.DaemonVersion(t.Context()); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestReadOnlyOverTCP(t *testing.T) {
	d := newTestDaemon(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.server.ServeReadOnly(ctx, l) }()
	base := "http://" + l.Addr().String()
	for path, want := range map[string]string{
		"/metrics":       "mesos_gpu_up 1\n",
		"/v1/version":    `{"version":"v-test","driver":"535.104.05","cuda":"12.2"}` + "\n",
		"/v1/containers": "[]\n",
		"/v2":            `{"error":"no such path; see docs/reference/agent-api.md"}` + "\n",
	} {
		if got := body(t, http.MethodGet, base+path, ""); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"/v1/cleanup", "/v1/prepare", "/v1/devices/GPU-0/cordon"} {
		if got := body(t, http.MethodPost, base+path, `{"container":"c","reason":"x"}`); !strings.Contains(got, "only GETs are answered here") {
			t.Errorf("%s: got %q", path, got)
		}
	}
	// The Mesos agent is queried, and limits may be set up.
	if got, want := body(t, http.MethodGet, base+"/v1/share?container=c", ""), `{"error":"/v1/share is not answered here: use the unix socket"}`+
		"\n"; got != want {
		t.Errorf("shares: got %q, want %q", got, want)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func body(t *testing.T, method, url, text string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}
