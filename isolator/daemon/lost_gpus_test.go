package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	rp "mesos-gpu/internal/resourceprovider"
	"mesos-gpu/internal/testing/nvmltest"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/inventory"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/socket"
)

// lostGPUFixture is a host with four GPUs, of which the third cannot be opened.
type lostGPUFixture struct {
	machine *nvmltest.FakeMachine
	cfg     DaemonConfig
}

func newLostGPUFixture(t *testing.T, library string, known bool) lostGPUFixture {
	t.Helper()
	h := gpu.Host{Driver: "580.65.06", CUDA: "13.0"}
	for i := range 4 {
		h.Devices = append(h.Devices, gpu.Device{
			UUID: lostTestUUID(i), Model: "NVIDIA A100-SXM4-80GB", MemMiB: 81920, Minor: i, PCI: fmt.Sprintf("0000:%02x:00.0", 0x10+i),
		})
	}
	m := nvmltest.ReportHost(t, h, nvmltest.FunctionFailure{Function: "nvmlDeviceGetHandleByIndex_v2", Index: 2, Return: 15})
	state := t.TempDir()
	if known {
		if err := inventory.SaveDevices(state, h.Devices); err != nil {
			t.Fatal(err)
		}
	}
	log, _ := logtest.NewNullLogger()
	return lostGPUFixture{m, DaemonConfig{
		StateDir: state, Log: log, Provider: true, Unmanaged: true, Socket: filepath.Join(t.TempDir(), "agent.sock"), ShareLimit: "none",
		OpenHardware: func() (Hardware, error) {
			devices, err := inventory.ReadDevices(state)
			if err != nil {
				return Hardware{}, err
			}
			return OpenNVML(nvml.LibraryConfig{Library: library, SysRoot: m.SysRoot, ProcRoot: m.ProcRoot, Known: devices})
		},
		rediscoverPause: 10 * time.Millisecond,
	}}
}

func lostTestUUID(i int) string { return fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i+1) }

// A GPU that is lost when the daemon starts takes no other GPU out of service, whether flags name it by its
// minor number or by its UUID, and whether it was known. It is reported with the driver's error, and offered once
// it responds.
func TestLostGPUAtStart(t *testing.T) {
	library := nvmltest.BuildLibrary(t, t.TempDir())
	for name, c := range map[string]struct {
		known        bool
		share, stock string
		offered      []int // whole, while the GPU is lost
		after        []int
	}{
		"known":                  {known: true, offered: []int{0, 1, 3}, after: []int{0, 1, 2, 3}},
		"known, shared":          {known: true, share: "0,2", offered: []int{1, 3}, after: []int{1, 3}},
		"known, shared by UUID":  {known: true, share: lostTestUUID(2), offered: []int{0, 1, 3}, after: []int{0, 1, 3}},
		"known, stock":           {known: true, stock: "2", offered: []int{0, 1, 3}, after: []int{0, 1, 3}},
		"unknown":                {offered: []int{0, 1, 3}, after: []int{0, 1, 2, 3}},
		"unknown, shared":        {share: "0,2", offered: []int{1, 3}, after: []int{1, 3}},
		"unknown, stock by UUID": {stock: lostTestUUID(2), offered: []int{0, 1, 3}, after: []int{0, 1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newLostGPUFixture(t, library, c.known)
			url, calls := startMesosAgent(t)
			f.cfg.AgentURL, f.cfg.SharedDevices, f.cfg.Stock = url, c.share, c.stock
			if f.cfg.SharedDevices == "" {
				f.cfg.SharedDevices = share.NoDevices
			}
			f.cfg.FaultPolicy.FailedQuiet = time.Millisecond
			f.cfg.rediscoverPause = time.Hour
			stop := runDaemonUntil(t, f.cfg)
			wantUUIDs(t, calls, c.offered)
			wantLostDevice(t, f.cfg.Socket, c.known)
			stop()

			f.cfg.rediscoverPause = 10 * time.Millisecond
			defer runDaemonUntil(t, f.cfg)()
			wantUUIDs(t, calls, c.offered)
			f.machine.SetFailures()
			wantUUIDs(t, calls, c.after)
			known, err := inventory.ReadDevices(f.cfg.StateDir)
			if err != nil || len(known) != 4 {
				t.Errorf("known %v, %v, want 4 devices", known, err)
			}
		})
	}
}

// runDaemonUntil runs a daemon until the returned function is called.
func runDaemonUntil(t *testing.T, cfg DaemonConfig) (stop func()) {
	t.Helper()
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// wantUUIDs waits until exactly these devices are offered whole.
func wantUUIDs(t *testing.T, calls <-chan *rp.ProviderCall, want []int) {
	t.Helper()
	var uuids []string
	for _, i := range want {
		uuids = append(uuids, lostTestUUID(i))
	}
	for {
		if got := wantResource(t, calls, advertise.ResourceGPUIDs); slices.Equal(got, uuids) {
			return
		}
	}
}

// wantLostDevice checks the device that the daemon reports as failed.
func wantLostDevice(t *testing.T, path string, known bool) {
	t.Helper()
	client := socket.NewDaemonClient(path)
	defer client.Close()
	list, err := client.ListDevices(t.Context())
	if err != nil || len(list) != 4 {
		t.Fatalf("devices %v, %v", list, err)
	}
	i := slices.IndexFunc(list, func(d socket.DeviceInfo) bool { return d.Condition.Health == gpu.Failed })
	if i < 0 || !strings.Contains(list[i].Condition.Reason, "open GPU 2: GPU is lost (NVML error 15)") {
		t.Fatalf("devices %+v, want one that is failed", list)
	}
	want := ""
	if known {
		want = lostTestUUID(2)
	}
	if list[i].Device.UUID != want {
		t.Errorf("device %v has failed, want %q", list[i].Device, want)
	}
}
