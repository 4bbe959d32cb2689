package daemon

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/agent"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/mesosapi"
	rp "mesos-gpu/internal/resourceprovider"
	"mesos-gpu/internal/testing/layouttest"
	"mesos-gpu/internal/testing/nvmltest"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/mesosagent"
	"mesos-gpu/isolator/mig"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/socket"
)

const (
	wholeGPU       = "GPU-11111111-0000-0000-0000-000000000001"
	partitionedGPU = "GPU-11111111-0000-0000-0000-000000000002"
)

// partitioningFixture is a host with two A100s, the second in MIG mode, and an agent with
// one task that holds a share of the device in held.
type partitioningFixture struct {
	machine *nvmltest.FakeMachine
	cfg     DaemonConfig
	calls   <-chan *rp.ProviderCall
	held    atomic.Pointer[string]
}

func newPartitioningFixture(t *testing.T) *partitioningFixture {
	t.Helper()
	c := &partitioningFixture{}
	library := nvmltest.BuildLibrary(t, t.TempDir())
	c.machine = nvmltest.ReportHost(t, gpu.Host{Driver: "550.54.15", CUDA: "12.4", Devices: []gpu.Device{
		{UUID: wholeGPU, Model: "NVIDIA A100-SXM4-40GB", Arch: "8.0", Brand: "nvidia", MemMiB: 40960, Minor: 0, PCI: "0000:07:00.0"},
		{UUID: partitionedGPU, Model: "NVIDIA A100-SXM4-40GB", Arch: "8.0", Brand: "nvidia", MemMiB: 40960, Minor: 1, PCI: "0000:0f:00.0"},
	}})
	c.machine.EnableMIG(partitionedGPU, layouttest.A100())
	url, calls := startMesosAgentWith(t, c.serveOperatorAPI)
	c.calls = calls
	log, _ := logtest.NewNullLogger()
	c.cfg = DaemonConfig{
		AgentURL: url, StateDir: t.TempDir(), Log: log, Provider: true, Unmanaged: true, Socket: filepath.Join(t.TempDir(), "agent.sock"),
		MIG: "1", MIGLayout: "2x3g.20gb", SharedDevices: "1", ShareLimit: "mig", Limiters: []share.Limiter{share.NewMIGLimiter()},
		OpenHardware: func() (Hardware, error) {
			return OpenNVML(nvml.LibraryConfig{Library: library, SysRoot: c.machine.SysRoot, ProcRoot: c.machine.ProcRoot})
		},
	}
	return c
}

func (c *partitioningFixture) serveOperatorAPI(w http.ResponseWriter, r *http.Request) {
	call := new(operator.Call)
	if err := mesosapi.ReadCall(r, call); err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	tasks := &operator.Response_GetTasks{}
	if uuid := c.held.Load(); uuid != nil {
		tasks.LaunchedTasks = []mesos.Task{{
			TaskID: mesos.TaskID{Value: "t"}, FrameworkID: mesos.FrameworkID{Value: "f"}, State: mesos.TASK_RUNNING.Enum(),
			Resources: []mesos.Resource{{
				Name: gpu.MemResource(*uuid), Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: 1}, ProviderID: &mesos.ResourceProviderID{Value: "p"},
			}},
		}}
	}
	mesosapi.WriteResponse(w, r, &operator.Response{
		Type: operator.Response_Type(call.Type), GetContainers: &operator.Response_GetContainers{}, GetTasks: tasks, GetExecutors: &operator.Response_GetExecutors{},
		GetState: &operator.Response_GetState{GetTasks: tasks}, GetAgent: &operator.Response_GetAgent{AgentInfo: &mesos.AgentInfo{ID: &mesos.AgentID{Value: "a"}}},
	})
}

// start runs a daemon until stop is called.
func (c *partitioningFixture) start(t *testing.T) (stop func()) {
	t.Helper()
	d, err := New(c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	ended := false
	stop = func() {
		if cancel(); !ended {
			ended = true
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// wantAdvertised waits until the whole GPU and MIG devices with the given memory are
// advertised, and returns the UUIDs of the MIG devices.
func (c *partitioningFixture) wantAdvertised(t *testing.T, mib ...float64) (slicesOf []string) {
	t.Helper()
	slices.Sort(mib)
	timeout := time.After(time.Minute)
	last := "nothing"
	for {
		select {
		case call := <-c.calls:
			if call.Type != rp.CallUpdateState {
				continue
			}
			var uuids []string
			var got []float64
			whole := false
			for _, r := range call.UpdateState.Resources {
				uuid, cores, shared := gpu.ShareResource(r.Name)
				switch {
				case shared && !cores:
					uuids, got = append(uuids, uuid), append(got, r.Scalar.Value)
				case r.Name == "gpu_ids":
					whole = slices.Equal(r.Set.Item, []string{wholeGPU})
				}
			}
			slices.Sort(got)
			if last = fmt.Sprint(got); whole && slices.Equal(got, mib) {
				return uuids
			}
		case <-timeout:
			t.Fatalf("advertised were %s last, want %v", last, mib)
		}
	}
}

// A GPU is partitioned as the flags request, and its MIG devices are advertised with the
// other GPU. A requested layout waits for the task that holds one of them; then the new
// MIG devices replace the old ones.
func TestIdleGPUIsPartitioned(t *testing.T) {
	c := newPartitioningFixture(t)
	c.start(t)
	uuids := c.wantAdvertised(t, 19456, 19456)
	c.held.Store(&uuids[0])
	client := socket.NewDaemonClient(c.cfg.Socket)
	t.Cleanup(client.Close)
	for text, names := range map[string][]string{"does not fit": {"7g.40gb", "1g.5gb"}, `no MIG profile "1g.10gb+x"`: {"1g.10gb+x"}} {
		if _, err := client.SetMIGLayout(t.Context(), partitionedGPU, names); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: got %v, want %q", names, err, text)
		}
	}
	if _, err := client.SetMIGLayout(t.Context(), wholeGPU, []string{"1g.5gb"}); err == nil || !strings.Contains(err.Error(), mig.ErrUnknownGPU.Error()) {
		t.Errorf("a GPU that may not be cut: %v", err)
	}
	want := []string{"4g.20gb", "1g.5gb"}
	if waits, err := client.SetMIGLayout(t.Context(), partitionedGPU, want); err != nil || !waits {
		t.Fatalf("waits %v, %v", waits, err)
	}
	list, err := client.ListMIG(t.Context())
	if err != nil || len(list) != 1 || !list[0].Pending || len(list[0].Instances) != 2 || !list[0].Instances[0].Ours {
		t.Errorf("with a task: %+v, %v", list, err)
	}
	c.held.Store(nil)
	if _, err := client.SetMIGLayout(t.Context(), partitionedGPU, want); err != nil { // wakes the daemon
		t.Fatal(err)
	}
	c.wantAdvertised(t, 4864, 19456)
	if got, want := c.machine.ListInstances(partitionedGPU), []string{"19@4", "5@0"}; !slices.Equal(got, want) {
		t.Errorf("cut into %v, want %v", got, want)
	}
	devices, err := client.ListDevices(t.Context())
	if err != nil || len(devices) != 3 {
		t.Errorf("devices %+v, %v", devices, err)
	}
}

// If a daemon ends between two instances, the next one completes the layout. Instances of
// other programs remain.
func TestPartitioningIsCompletedAfterRestart(t *testing.T) {
	c := newPartitioningFixture(t)
	c.machine.AddInstance(partitionedGPU, 19, 9, 6)
	c.cfg.MIGLayout = "4g.20gb,2g.10gb"
	c.machine.SetFailures(nvmltest.FunctionFailure{Function: "nvmlGpuInstanceCreateComputeInstance", Index: 1, Return: 999})
	stop := c.start(t)
	c.wantAdvertised(t, 4864)
	if got := c.machine.ListInstances(partitionedGPU); !slices.Equal(got, []string{"19@6"}) {
		t.Errorf("cut into %v", got)
	}
	stop()
	c.machine.SetFailures()
	c.start(t)
	c.wantAdvertised(t, 4864, 9728, 19456)
	if got, want := c.machine.ListInstances(partitionedGPU), []string{"14@4", "19@6", "5@0"}; !slices.Equal(got, want) {
		t.Errorf("cut into %v, want %v", got, want)
	}
}

func TestPartitioningErrors(t *testing.T) {
	for want, change := range map[string]func(*DaemonConfig){
		"--mig requires --advertise provider":                   func(c *DaemonConfig) { c.Provider = false },
		"name whole GPUs in --share and --stock":                func(c *DaemonConfig) { c.SharedDevices = "MIG-1" },
		`GPUs to partition "0": "0" names none of`:              func(c *DaemonConfig) { c.MIG = "0" },
		"GPU " + partitionedGPU + " is in --mig and in --stock": func(c *DaemonConfig) { c.SharedDevices, c.Stock = "none", "1" },
		"these GPUs cannot be partitioned: they are simulated": func(c *DaemonConfig) {
			c.OpenHardware = func() (Hardware, error) { return SimulatedHardware(simulatedHost(t)), nil }
		},
	} {
		c := newPartitioningFixture(t)
		change(&c.cfg)
		d, err := New(c.cfg)
		if err == nil {
			err = d.Run(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A container that holds another GPU keeps its record and its GPU when a GPU is
// repartitioned.
func TestContainersSurvivePartitioning(t *testing.T) {
	testneeds.RequireRoot(t)
	c := newPartitioningFixture(t)
	c.cfg.Unmanaged, c.cfg.RuntimeDir, c.cfg.CgroupsRoot = false, t.TempDir(), "mesos-gpu-test-"+strings.ToLower(t.Name())
	c.cfg.DriverVolume, c.cfg.NeedsDriver = noVolume, needsNoDriver
	open := c.cfg.OpenHardware
	c.cfg.OpenHardware = func() (Hardware, error) { // nodes without a driver
		h, err := open()
		h.Host.Simulated = true
		describe := h.Rediscover
		h.Rediscover = func() (gpu.Host, error) {
			again, err := describe()
			again.Simulated = true
			return again, err
		}
		return h, err
	}
	hosts := make(chan gpu.Host, 10)
	c.cfg.OnDiscovered = func(h gpu.Host) { hosts <- h }
	c.start(t)
	c.wantAdvertised(t, 19456, 19456)
	<-hosts
	client := socket.NewDaemonClient(c.cfg.Socket)
	t.Cleanup(client.Close)
	whole := []allocation.MesosResource{{Name: "gpus", Scalar: 1}, {Name: "gpu_ids", Set: []string{wholeGPU}}}
	if _, err := client.PrepareContainer(t.Context(), containers.LaunchRequest{Container: "c", Resources: whole}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.SetMIGLayout(t.Context(), partitionedGPU, []string{"7g.40gb"}); err != nil {
		t.Fatal(err)
	}
	c.wantAdvertised(t, 38912)
	if h := <-hosts; len(h.Devices) != 2 {
		t.Errorf("reported %v", h.Devices)
	}
	holders, err := client.ListContainers(t.Context())
	if err != nil || len(holders) != 1 || !slices.Equal(holders[0].Devices, []string{wholeGPU}) {
		t.Errorf("holders %+v, %v", holders, err)
	}
	if _, err := client.PrepareContainer(t.Context(), containers.LaunchRequest{Container: "d", Resources: whole}); err == nil {
		t.Error("the GPU of a container is given to another")
	}
	if err := client.CleanUpContainer(t.Context(), "c"); err != nil {
		t.Error(err)
	}
}

// If a container with a share of a MIG device ends during repartitioning, it is released:
// a MIG device with the same UUID can be assigned again.
func TestDiscoveredContainersSurvivePartitioning(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	has := true
	agent, err := mesosagent.New(mesosagent.ClientConfig{AgentURL: operatorAPI(t, &has), MinInterval: time.Nanosecond, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{admitted: map[string]discoveredContainer{}}
	limiter := share.NewMIGLimiter()
	before := newDiscoveredContainers(d.admitted, limiter, agent, func(string) bool { return false }, log)
	if _, err := before.Share(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	has = false
	if err := agent.RefreshState(t.Context()); err != nil {
		t.Fatal(err)
	}
	newDiscoveredContainers(d.admitted, limiter, agent, func(string) bool { return false }, log).reconcileAdmitted(t.Context())
	if _, err := limiter.AdmitContainer(t.Context(), "other", []gpu.DeviceShare{{UUID: "GPU-a", MemMiB: 64}}); err != nil {
		t.Errorf("after the cut: %v", err)
	}
}
