package socket

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/watch"
)

// measuredDevices is one device with samples.
type measuredDevices struct{ oneDeviceMonitor }

var measuredAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (measuredDevices) DeviceStates() []watch.DeviceState {
	state := func(uuid string, age time.Duration, used float64) watch.DeviceState {
		return watch.DeviceState{Device: gpu.Device{UUID: uuid}, Condition: gpu.DeviceCondition{Health: gpu.Healthy}, Sample: gpu.Sample{
			At:     measuredAt.Add(-age),
			Values: map[gpu.SampleField]float64{gpu.DutyRatio: 0.5, gpu.MemUsedBytes: used * (1 << 20), gpu.MemTotalBytes: 100 << 20, gpu.PowerWatts: 70},
		}}
	}
	return []watch.DeviceState{state("GPU-a", time.Second, 90), state("GPU-b", 0, 10)}
}

// daemonOf serves a handler at a Unix socket and returns a client for it.
func daemonOf(t *testing.T, h http.Handler) *DaemonClient {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	t.Cleanup(s.Close)
	c := NewDaemonClient(path)
	t.Cleanup(c.Close)
	return c
}

func of(v float64) *float64 { return &v }

// TestReadUsage: a container gets only its own devices. For a share, the
// memory is its own; the time is that of the oldest sample.
func TestReadUsage(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	o := &oneSharedDevice{}
	s, err := NewServer(ServerConfig{
		Containers: oneDeviceContainers{o},
		Devices:    measuredDevices{},
		Modes:      o,
		Limiter:    o,
		Metrics:    http.NotFoundHandler(),
		Log:        log,
		Host:       gpu.Host{Simulated: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := daemonOf(t, s.newHandler())
	whole := gpu.DeviceUsage{UUID: "GPU-a", Duty: of(0.5), MemUsedMiB: of(90), MemMiB: of(100), Watts: of(70), Health: gpu.Healthy}
	other := gpu.DeviceUsage{UUID: "GPU-b", Duty: of(0.5), MemUsedMiB: of(10), MemMiB: of(100), Watts: of(70), Health: gpu.Healthy}
	part := gpu.DeviceUsage{
		UUID:             "GPU-a",
		Shared:           true,
		Duty:             of(0.5),
		MemUsedMiB:       of(7. / (1 << 20)),
		MemMiB:           of(40. / (1 << 20)),
		Watts:            of(70),
		Health:           gpu.Healthy,
		ThrottledSeconds: of(1),
	}
	for name, test := range map[string]struct {
		devices []string
		parts   bool
		at      time.Time
		want    []gpu.DeviceUsage
	}{
		"named":               {[]string{"GPU-b"}, false, measuredAt, []gpu.DeviceUsage{other}},
		"two, one older":      {[]string{"GPU-b", "GPU-a"}, false, measuredAt.Add(-time.Second), []gpu.DeviceUsage{other, whole}},
		"those that it holds": {nil, false, measuredAt.Add(-time.Second), []gpu.DeviceUsage{whole}},
		"a part":              {[]string{"GPU-a"}, true, measuredAt.Add(-time.Second), []gpu.DeviceUsage{part}},
		"a part that none measures": {[]string{"GPU-b"}, true, measuredAt, []gpu.DeviceUsage{{UUID: "GPU-b", Shared: true,
			Duty: of(0.5), MemMiB: of(0), Watts: of(70), Health: gpu.Healthy}}},
	} {
		got, err := c.ReadUsage(t.Context(), "c", test.devices, test.parts)
		if diff := cmp.Diff(gpu.TaskUsage{Time: test.at, Simulated: true, Devices: test.want}, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	if _, err := c.ReadUsage(t.Context(), "c", []string{"GPU-z"}, false); err == nil || !strings.Contains(err.Error(), "GPU-z: it is not among the 2") {
		t.Errorf("an unknown device: %v", err)
	}
	o.err = errors.New("no books")
	if _, err := c.ReadUsage(t.Context(), "c", nil, false); err == nil || !strings.Contains(err.Error(), "no books") {
		t.Errorf("an unknown container: %v", err)
	}
}

// A container that has all of a shared device uses what the device measures.
func TestUsageOfWholeSharedDevice(t *testing.T) {
	s := &DeviceSharing{Shared: true, MemMiB: 100, Cores: 150, Containers: []ContainerShare{{Container: "all", MemMiB: 100, Cores: 150}, {Container: "part", MemMiB: 100, Cores: 100}}}
	for container, want := range map[string]bool{"all": true, "part": false, "none": false} {
		if s.isAllOf(container) != want {
			t.Errorf("%s has all of the device: %t, want %t", container, !want, want)
		}
	}
	if (*DeviceSharing)(nil).isAllOf("all") {
		t.Error("a device that is not shared has shares")
	}
}

// TestReadUsageWithoutDaemon: many agents have no daemon, and another server may send any
// response.
func TestReadUsageWithoutDaemon(t *testing.T) {
	if _, err := NewDaemonClient(filepath.Join(t.TempDir(), "none")).ReadUsage(t.Context(), "c", []string{"GPU-a"}, false); err == nil {
		t.Error("got usage without a daemon")
	}
	odd := daemonOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "[]") }))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := odd.ReadUsage(ctx, "c", []string{"GPU-a"}, false); err == nil {
		t.Error("got figures from what is no daemon")
	}
}
