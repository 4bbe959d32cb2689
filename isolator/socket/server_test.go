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
	"mesos-gpu/isolator"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/containers/kerneltest"
	"mesos-gpu/isolator/ledger"
	"mesos-gpu/isolator/socket"
	"mesos-gpu/isolator/watch"
)

// The real ones fit.
var (
	_ socket.Containers = (*containers.Containers)(nil)
	_ socket.Devices    = (*watch.Watcher)(nil)
	_ containers.Kernel = (*isolator.Isolator)(nil)
)

func TestMain(m *testing.M) {
	commands := map[string]func([]string){"call-agent": callAgent, "serve-agent": serveAgent}
	if len(os.Args) > 1 && commands[os.Args[1]] != nil {
		commands[os.Args[1]](os.Args[2:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// devices are two devices in memory.
type devices struct {
	mu      sync.Mutex
	states  []watch.State
	changed chan struct{} // closed at each change
}

func newDevices() *devices {
	at := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	return &devices{changed: make(chan struct{}), states: []watch.State{
		{
			Device: gpu.Device{UUID: "GPU-0", Model: "Tesla V100-SXM2-16GB"}, Condition: gpu.Condition{Health: gpu.Healthy},
			Sample: gpu.Sample{At: at, Values: map[gpu.Field]float64{gpu.Celsius: 40}, Processes: []gpu.Process{{PID: 7, MemBytes: 1 << 20}}},
		},
		{Device: gpu.Device{UUID: "GPU-1", Minor: 1}, Condition: gpu.Condition{Health: gpu.Failed, Reason: "XID 79"}},
	}}
}

func (d *devices) Devices() []watch.State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.states)
}

func (d *devices) History(uuid string) ([]gpu.Sample, bool) {
	for _, s := range d.Devices() {
		if s.Device.UUID == uuid {
			if s.Sample.At.IsZero() {
				return nil, true
			}
			return []gpu.Sample{s.Sample}, true
		}
	}
	return nil, false
}

func (d *devices) set(uuid string, change func(*gpu.Condition)) error {
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
	return fmt.Errorf("device %q: %w", uuid, watch.ErrUnknown)
}

func (d *devices) Cordon(uuid, reason string) error {
	return d.set(uuid, func(c *gpu.Condition) { c.Cordoned, c.Cordon = true, reason })
}

func (d *devices) Uncordon(uuid string) error {
	return d.set(uuid, func(c *gpu.Condition) { c.Cordoned, c.Cordon = false, "" })
}

func (d *devices) Watch(ctx context.Context, uuids ...string) (<-chan watch.Update, error) {
	for _, uuid := range uuids {
		if _, ok := d.History(uuid); !ok {
			return nil, fmt.Errorf("device %q: %w", uuid, watch.ErrUnknown)
		}
	}
	updates := make(chan watch.Update)
	go func() {
		defer close(updates)
		last := map[string]gpu.Condition{}
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
				case updates <- watch.Update{Device: uuid, Condition: s.Condition}:
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

// daemon is a server with its parts.
type daemon struct {
	*socket.Client
	path       string
	server     *socket.Server
	containers *containers.Containers
	devices    *devices
	kernel     containers.Kernel
	stop       func()
}

func newContainers(tb testing.TB, kernel containers.Kernel, dir string) *containers.Containers {
	tb.Helper()
	c, err := containers.Open(containers.Config{
		Kernel: kernel, Dir: dir, Stock: []string{"GPU-1"}, Log: quiet(),
		Volume:      func(context.Context) (string, error) { return "/volume", nil },
		NeedsDriver: func(_, env map[string]string) (bool, error) { return env["NVIDIA_VISIBLE_DEVICES"] == "all", nil },
	})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func newDaemon(tb testing.TB, change func(*socket.Config)) *daemon {
	tb.Helper()
	// Short, for a socket's path has 107 bytes, and open to other users.
	dir, err := os.MkdirTemp("", "agent-api-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	d := &daemon{path: filepath.Join(dir, "run", "agent.sock"), devices: newDevices(), kernel: kerneltest.New("GPU-0", "GPU-1")}
	d.containers = newContainers(tb, d.kernel, filepath.Join(dir, "containers"))
	cfg := socket.Config{
		Containers: d.containers, Devices: d.devices, Version: "v-test", UID: os.Getuid(), Log: quiet(),
		Host:    gpu.Host{Driver: "535.104.05", CUDA: "12.2"},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "mesos_gpu_up 1") }),
	}
	if change != nil {
		change(&cfg)
	}
	if d.server, err = socket.New(cfg); err != nil {
		tb.Fatal(err)
	}
	d.Client = socket.NewClient(d.path)
	tb.Cleanup(d.Client.Close)
	return d
}

// start serves until stop is called or the test ends.
func (d *daemon) start(tb testing.TB) {
	tb.Helper()
	l, err := socket.Listen(d.path)
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

func started(tb testing.TB) *daemon {
	tb.Helper()
	d := newDaemon(tb, nil)
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

func TestLifeOfAContainer(t *testing.T) {
	d := started(t)
	ctx := t.Context()
	launch := containers.Launch{
		Container: "c", Directory: "/sandbox", Rootfs: true, Framework: "f", Executor: "e", Task: "t", Job: "j",
		Resources: []ledger.Resource{{Name: "gpus", Scalar: 2}, {Name: "gpu_ids", Set: []string{"GPU-0"}}},
		Image:     containers.Image{Environment: map[string]string{"NVIDIA_VISIBLE_DEVICES": "all"}},
	}
	setup, err := d.Prepare(ctx, launch)
	check(t, "prepare", err, setup, containers.Setup{
		Devices: []string{"GPU-0", "GPU-1"},
		Nodes:   []containers.Node{{Path: "/dev/nvidia0", Major: 195}, {Path: "/dev/nvidia1", Major: 195, Minor: 1}},
		Mounts:  []containers.Mount{{Source: "/volume", Target: "/usr/local/nvidia", ReadOnly: true}},
		Environment: map[string]string{
			"NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1", "MESOS_GPU_DEVICES": "GPU-0,GPU-1",
			"PATH":            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/nvidia/bin",
			"LD_LIBRARY_PATH": "/usr/local/cuda/compat:/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
		},
	})
	if err := d.Isolate(ctx, "c", 42); err != nil {
		t.Error(err)
	}
	holder := gpu.Holder{Container: "c", Framework: "f", Executor: "e", Task: "t", Job: "j", Devices: []string{"GPU-0", "GPU-1"}}
	status, err := d.Status(ctx, "c")
	check(t, "status", err, status, containers.Status{Holder: holder, Rules: []string{"c 195:0 rw", "c 195:1 rw"}})
	held, err := d.Containers(ctx)
	check(t, "containers", err, held, []gpu.Holder{holder})
	usage, err := d.Usage(ctx, "c")
	sample := d.devices.Devices()[0].Sample
	check(t, "usage", err, usage, socket.Usage{Devices: []socket.DeviceUsage{{Device: "GPU-0", Sample: &sample}, {Device: "GPU-1"}}})

	got, err := d.Update(ctx, "c", []ledger.Resource{{Name: "gpus", Scalar: 1}})
	check(t, "update", err, got, []string{"GPU-1"})
	if err := d.Recover(ctx, []string{"c"}); err != nil {
		t.Error(err)
	}
	if err := d.Cleanup(ctx, "c"); err != nil {
		t.Error(err)
	}
	if err := d.Cleanup(ctx, "c"); err != nil {
		t.Errorf("the second time: %v", err)
	}
	held, err = d.Containers(ctx)
	check(t, "containers at last", err, held, []gpu.Holder{})
}

func TestDevices(t *testing.T) {
	d := started(t)
	ctx := t.Context()
	if _, err := d.Prepare(ctx, containers.Launch{Container: "c", Resources: []ledger.Resource{{Name: "gpus", Scalar: 1}}}); err != nil {
		t.Fatal(err)
	}
	states := d.devices.Devices()
	list, err := d.Devices(ctx)
	check(t, "devices", err, list, []socket.Device{
		{Device: states[0].Device, Condition: states[0].Condition, Holders: []string{}, Sample: &states[0].Sample},
		{Device: states[1].Device, Condition: states[1].Condition, Holders: []string{"c"}, Stock: true},
	})
	samples, err := d.History(ctx, "GPU-0")
	check(t, "history", err, samples, []gpu.Sample{states[0].Sample})
	samples, err = d.History(ctx, "GPU-1")
	check(t, "history of one not measured", err, samples, []gpu.Sample{})
	version, err := d.Version(ctx)
	check(t, "version", err, version, "v-test")
	host, err := d.Host(ctx)
	check(t, "host", err, host, gpu.Host{Driver: "535.104.05", CUDA: "12.2"})

	if err := d.Cordon(ctx, "GPU-0", "fan"); err != nil {
		t.Fatal(err)
	}
	if c := d.devices.Devices()[0].Condition; c.Cordon != "fan" {
		t.Errorf("cordoned: got %+v", c)
	}
	if err := d.Uncordon(ctx, "GPU-0"); err != nil {
		t.Fatal(err)
	}
	if c := d.devices.Devices()[0].Condition; c.Cordoned {
		t.Errorf("uncordoned: got %+v", c)
	}
}

func TestConditions(t *testing.T) {
	d := newDaemon(t, nil)
	d.server.SetPatience(brief)
	d.start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	for change, err := range d.Conditions(ctx, "GPU-0") {
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
			time.Sleep(brief + brief/5) // a stream outlives the patience with a request
			if err := d.Cordon(ctx, "GPU-1", "not watched"); err != nil {
				t.Fatal(err)
			}
			if err := d.Cordon(ctx, "GPU-0", "fan"); err != nil {
				t.Fatal(err)
			}
		case 2:
			cancel()
		}
	}
	check(t, "changes", nil, seen, []string{"GPU-0 ", "GPU-0 fan", "end"})

	all := 0
	for range d.Conditions(t.Context()) {
		if all++; all == 2 {
			break
		}
	}
	if all != 2 {
		t.Errorf("no device named: %d lines, want one for each of 2", all)
	}

	// A daemon that ends ends its streams.
	for _, err := range d.Conditions(t.Context(), "GPU-1") {
		if err == nil {
			go d.stop()
			continue
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", err)
		}
	}
}

func TestRefusals(t *testing.T) {
	d := started(t)
	ctx := t.Context()
	status := func(err error) int {
		var said *socket.Error
		if !errors.As(err, &said) || said.Message == "" {
			t.Errorf("got %v, want an answer that says no", err)
			return 0
		}
		return said.Status
	}
	_, unknown := d.Status(ctx, "nobody")
	_, usage := d.Usage(ctx, "nobody")
	_, invalid := d.Status(ctx, "../x")
	_, history := d.History(ctx, "GPU-9")
	_, many := d.Prepare(ctx, containers.Launch{Container: "c", Resources: []ledger.Resource{{Name: "gpus", Scalar: 9}}})
	var conditions error
	for _, err := range d.Conditions(ctx, "GPU-9") {
		conditions = err
	}
	for what, c := range map[string]struct {
		err  error
		want int
	}{
		"status": {unknown, 404}, "usage": {usage, 404}, "name": {invalid, 400}, "history": {history, 404}, "conditions": {conditions, 404},
		"cordon": {d.Cordon(ctx, "GPU-9", "x"), 404}, "uncordon": {d.Uncordon(ctx, "GPU-9"), 404}, "isolate": {d.Isolate(ctx, "nobody", 1), 404},
		"no reason": {d.Cordon(ctx, "GPU-0", ""), 400}, "long reason": {d.Cordon(ctx, "GPU-0", strings.Repeat("x", 1025)), 400},
		"too many": {many, 409}, "process": {d.Isolate(ctx, "nobody", -1), 400},
	} {
		if got := status(c.err); got != c.want {
			t.Errorf("%s: status %d (%v), want %d", what, got, c.err, c.want)
		}
	}
}

func TestNewWantsItsParts(t *testing.T) {
	if _, err := socket.New(socket.Config{}); err == nil {
		t.Error("a server of nothing")
	}
}

// panicky is a fault in what the server calls.
type panicky struct{ socket.Containers }

func (panicky) Holders() []gpu.Holder { panic("out of range") }

func TestAFaultEndsOneCall(t *testing.T) {
	d := newDaemon(t, func(c *socket.Config) { c.Containers = panicky{c.Containers} })
	d.start(t)
	var said *socket.Error
	if _, err := d.Containers(t.Context()); !errors.As(err, &said) || said.Status != 500 {
		t.Errorf("got %v, want status 500", err)
	}
	if _, err := d.Version(t.Context()); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestReadOnlyOverTCP(t *testing.T) {
	d := newDaemon(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.server.ServeReadOnly(ctx, l) }()
	base := "http://" + l.Addr().String()
	for path, want := range map[string]string{
		"/metrics": "mesos_gpu_up 1\n", "/v1/version": `{"version":"v-test","driver":"535.104.05","cuda":"12.2"}` + "\n", "/v1/containers": "[]\n", "/v2": `{"error":"no such path; see docs/isolator-api.md"}` + "\n",
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
