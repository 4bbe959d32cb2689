package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/mesosapi"
	rp "mesos-gpu/internal/resourceprovider"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/isolator/socket"
)

func simulatedHost(t *testing.T) gpu.Host {
	t.Helper()
	h, err := simulated.NewHost("3xV100,1xK80", "test")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// startMesosAgent accepts a provider and forwards its calls.
func startMesosAgent(t *testing.T) (url string, calls <-chan *rp.ProviderCall) {
	t.Helper()
	return startMesosAgentWith(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no operator API here", http.StatusNotFound)
	})
}

// startMesosAgentWith also serves an operator API.
func startMesosAgentWith(t *testing.T, operator http.HandlerFunc) (url string, calls <-chan *rp.ProviderCall) {
	t.Helper()
	heard := make(chan *rp.ProviderCall, 100)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/resource_provider") {
			operator(w, r)
			return
		}
		call := new(rp.ProviderCall)
		if err := mesosapi.ReadCall(r, call); err != nil {
			mesosapi.WriteError(w, err)
			return
		}
		heard <- call
		if call.Type != rp.CallSubscribe {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		stream, err := mesosapi.NewStream(r)
		if err != nil {
			mesosapi.WriteError(w, err)
			return
		}
		event := &rp.ProviderEvent{Type: rp.EventSubscribed, Subscribed: &rp.Subscribed{}}
		event.Subscribed.ProviderID.Value = "p"
		stream.Send(event)
		_ = stream.Serve(r.Context(), w, "stream")
	}))
	t.Cleanup(agent.Close)
	return agent.URL, heard
}

// wantOffered waits for the provider's next state and returns its devices.
func wantOffered(t *testing.T, calls <-chan *rp.ProviderCall) []string {
	t.Helper()
	return wantResource(t, calls, advertise.ResourceGPUIDs)
}

// wantResource waits for the provider's next state and returns the items of a set.
func wantResource(t *testing.T, calls <-chan *rp.ProviderCall, set string) []string {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case call := <-calls:
			if call.Type != rp.CallUpdateState {
				continue
			}
			i := slices.IndexFunc(call.UpdateState.Resources, func(r mesos.Resource) bool { return r.Name == set })
			if i < 0 {
				return nil
			}
			return call.UpdateState.Resources[i].Set.Item
		case <-timeout:
			t.Fatal("no UPDATE_STATE in a minute")
		}
	}
}

// runDaemon runs a daemon until the test ends, which must end without an error.
func runDaemon(t *testing.T, cfg DaemonConfig) {
	t.Helper()
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func newConfig(t *testing.T, agent string) DaemonConfig {
	log, _ := logtest.NewNullLogger()
	h := simulatedHost(t)
	return DaemonConfig{
		AgentURL: agent, StateDir: t.TempDir(), Log: log, Provider: true,
		OpenHardware: func() (Hardware, error) { return SimulatedHardware(h), nil },
	}
}

// The daemon of the embedded cluster advertises devices and serves no API.
func TestAdvertisesDevices(t *testing.T) {
	agent, calls := startMesosAgent(t)
	runDaemon(t, newConfig(t, agent))
	if got := wantOffered(t, calls); len(got) != 4 {
		t.Errorf("offered %v, want 4 devices", got)
	}
}

// All parts together: a cordoned device leaves the offers immediately. A stock device is
// not advertised and is assigned by count. The metrics include both.
func TestServesAPI(t *testing.T) {
	testneeds.RequireRoot(t)
	agent, calls := startMesosAgent(t)
	cfg := newConfig(t, agent)
	listening := make(chan string, 1)
	cfg.Socket, cfg.Listen, cfg.OnListening = filepath.Join(t.TempDir(), "agent.sock"), "127.0.0.1:0", func(at string) { listening <- at }
	cfg.RuntimeDir, cfg.Stock, cfg.Version = t.TempDir(), "3", "v9"
	cfg.CgroupsRoot = "mesos-gpu-test-" + strings.ToLower(t.Name())
	cfg.DriverVolume = func(context.Context) (string, error) { return "/volume", nil }
	sweeps := make(chan struct{}, 10)
	cfg.RemoveOrphans = func(context.Context) error {
		sweeps <- struct{}{}
		return nil
	}
	cfg.NeedsDriver = func(map[string]string, map[string]string) (bool, error) { return true, nil }
	cfg.CheckImage = func(_, _ map[string]string, devices []string) error {
		return fmt.Errorf("not on %s", strings.Join(devices, ","))
	}
	runDaemon(t, cfg)

	h := simulatedHost(t)
	if got := wantOffered(t, calls); !slices.Equal(got, deviceIDs(h.Devices[:3])) {
		t.Errorf("offered %v, want all but the stock device", got)
	}
	at := <-listening
	client := socket.NewDaemonClient(cfg.Socket)
	t.Cleanup(client.Close)
	if err := client.CordonDevice(t.Context(), h.Devices[1].UUID, "fan"); err != nil {
		t.Fatal(err)
	}
	if got := wantOffered(t, calls); !slices.Equal(got, []string{h.Devices[0].UUID, h.Devices[2].UUID}) {
		t.Errorf("with a cordoned device offered are %v", got)
	}
	for _, device := range []int{0, 3} { // the provider does not advertise the stock device
		if err := client.CordonDevice(t.Context(), h.Devices[device].UUID, "dust"); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{h.Devices[0].UUID + " cordoned dust", h.Devices[1].UUID + " cordoned fan"}
	if got := wantResource(t, calls, gpu.WithheldResource); !slices.Equal(got, want) {
		t.Errorf("reported as withheld are %v, want %v", got, want)
	}
	for _, device := range []int{0, 3} {
		if err := client.UncordonDevice(t.Context(), h.Devices[device].UUID); err != nil {
			t.Fatal(err)
		}
	}
	devices, err := client.ListDevices(t.Context())
	if err != nil || len(devices) != 4 || !devices[1].Condition.Cordoned || !devices[3].Stock {
		t.Errorf("devices %+v, %v", devices, err)
	}
	for i, d := range devices { // with all attributes, including compute capability and brand
		if diff := cmp.Diff(h.Devices[i], d.Device); diff != "" || d.Device.Arch == "" || d.Device.Brand == "" {
			t.Errorf("device %d: %+v (-want +got):\n%s", i, d.Device, diff)
		}
	}
	_, err = client.PrepareContainer(t.Context(), containers.LaunchRequest{
		Container: "unfit",
		Rootfs:    true,
		Resources: []allocation.MesosResource{{Name: "gpus", Scalar: 1}},
	})
	var failed *socket.ResponseError
	if want := "its image cannot run here: not on " + h.Devices[3].UUID; !errors.As(err, &failed) || failed.Status != 422 || !strings.Contains(err.Error(), want) {
		t.Errorf("an image that does not run on its GPU: got %v, want 422 and %q", err, want)
	}
	setup, err := client.PrepareContainer(t.Context(), containers.LaunchRequest{Container: "c", Resources: []allocation.MesosResource{
		{Name: "gpus", Scalar: 2}, {Name: "gpu_ids", Set: []string{h.Devices[0].UUID}},
	}})
	if want := []string{h.Devices[0].UUID, h.Devices[3].UUID}; err != nil || !slices.Equal(setup.Devices, want) {
		t.Errorf("the container got %v, %v; want %v", setup.Devices, err, want)
	}
	awaitSweep := func(when string) {
		t.Helper()
		select {
		case <-sweeps:
		case <-time.After(time.Minute):
			t.Fatalf("the daemon does not remove what killed executors have left: no search %s", when)
		}
	}
	awaitSweep("at its start")
	if err := client.CleanUpContainer(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	awaitSweep("after the end of a container")
	response, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(text), `mesos_gpu_cordoned{`) {
		t.Errorf("metrics: %v\n%.2000s", err, text)
	}
}

func deviceIDs(devices []gpu.Device) []string {
	var list []string
	for _, d := range devices {
		list = append(list, d.UUID)
	}
	return list
}

// A second daemon with the same folders is rejected.
func TestSecondDaemonIsRejected(t *testing.T) {
	agent, calls := startMesosAgent(t)
	cfg := newConfig(t, agent)
	runDaemon(t, cfg)
	wantOffered(t, calls)
	second, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "state.lock: locked by another daemon (process ") {
		t.Errorf("got %v", err)
	}
}

// A hanging driver does not prevent the daemon from ending.
func TestStopsWhileDriverHangs(t *testing.T) {
	cfg := newConfig(t, "")
	asked, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	cfg.OpenHardware = func() (Hardware, error) {
		close(asked)
		<-release
		return Hardware{}, errors.New("late")
	}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- d.Run(ctx) }()
	<-asked
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "while the driver did not respond") {
		t.Errorf("got %v", err)
	}
}

// If one component fails, the others are stopped.
func TestRunAllStopsWithFirst(t *testing.T) {
	broken := errors.New("broken")
	err := runAll(t.Context(), []component{
		func(ctx context.Context) error { <-ctx.Done(); return nil },
		func(context.Context) error { return broken },
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func noVolume(context.Context) (string, error)                         { return "", errors.New("none") }
func needsNoDriver(map[string]string, map[string]string) (bool, error) { return false, nil }

func TestNewRejectsInvalidConfig(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	good := func() (Hardware, error) { return SimulatedHardware(simulatedHost(t)), nil }
	for name, cfg := range map[string]DaemonConfig{
		"no hardware":   {Log: log, StateDir: "d"},
		"no log":        {OpenHardware: good, StateDir: "d"},
		"no folder":     {OpenHardware: good, Log: log},
		"no volume":     {OpenHardware: good, Log: log, StateDir: "d", Socket: "s", RuntimeDir: "r", CgroupsRoot: "mesos"},
		"no run folder": {OpenHardware: good, Log: log, StateDir: "d", Socket: "s", CgroupsRoot: "mesos"},
		"all cgroups": {OpenHardware: good, Log: log, StateDir: "d", Socket: "s", RuntimeDir: "r", CgroupsRoot: "/.",
			DriverVolume: noVolume, NeedsDriver: needsNoDriver},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	twice := func() (Hardware, error) {
		d := gpu.Device{UUID: "GPU-a"}
		return SimulatedHardware(gpu.Host{Devices: []gpu.Device{d, d}}), nil
	}
	none := func() (Hardware, error) { return Hardware{}, errors.New("no NVIDIA driver") }
	for name, c := range map[string]struct {
		change func(*DaemonConfig)
		want   string
	}{
		"no driver":    {func(c *DaemonConfig) { c.OpenHardware = none }, "discover GPUs: no NVIDIA driver"},
		"twice":        {func(c *DaemonConfig) { c.OpenHardware = twice }, `discover GPUs: two devices have the UUID "GPU-a"`},
		"no agent URL": {func(*DaemonConfig) {}, `advertise GPUs: agent URL "" is invalid`},
		"stock":        {func(c *DaemonConfig) { c.Stock = "9" }, `stock GPUs "9"`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := newConfig(t, "")
			c.change(&cfg)
			d, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
