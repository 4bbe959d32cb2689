package daemon

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/agent"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/mesosapi"
	rp "mesos-gpu/internal/resourceprovider"
	"mesos-gpu/internal/testing/kerneltest"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/mesosagent"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/socket"
)

// recordingLimiter is a limiter that records its containers.
type recordingLimiter struct {
	share.NoLimiter
	admitted map[string]int64
}

func (recordingLimiter) Method() gpu.EnforcementMethod { return gpu.EnforcedByPreload }

func (n recordingLimiter) AdmitContainer(_ context.Context, container string, shares []gpu.DeviceShare) (share.LimitSetup, error) {
	n.admitted[container] = shares[0].MemMiB
	return share.LimitSetup{Environment: map[string]string{"OF": container}}, nil
}

func (n recordingLimiter) ReleaseContainer(_ context.Context, container string) error {
	delete(n.admitted, container)
	return nil
}

// operatorAPI is a Mesos agent with one executor container, whose task holds a share of
// GPU-a while has is true.
func operatorAPI(t *testing.T, has *bool) string {
	t.Helper()
	framework, executor := mesos.FrameworkID{Value: "f"}, mesos.ExecutorID{Value: "e"}
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := new(operator.Call)
		if err := mesosapi.ReadCall(r, call); err != nil {
			mesosapi.WriteError(w, err)
			return
		}
		containers, tasks := &operator.Response_GetContainers{}, &operator.Response_GetTasks{}
		if *has {
			containers.Containers = []operator.Response_GetContainers_Container{{FrameworkID: &framework, ExecutorID: &executor,
				ContainerID: mesos.ContainerID{Value: "c"}}}
			tasks.LaunchedTasks = []mesos.Task{{
				TaskID: mesos.TaskID{Value: "t"}, FrameworkID: framework, ExecutorID: &executor, State: mesos.TASK_RUNNING.Enum(),
				Resources: []mesos.Resource{{Name: "gpu_mem.GPU-a", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: 64}}},
			}}
		}
		mesosapi.WriteResponse(w, r, &operator.Response{
			Type:          operator.Response_Type(call.Type),
			GetContainers: containers,
			GetTasks:      tasks,
			GetExecutors:  &operator.Response_GetExecutors{},
		})
	}))
	t.Cleanup(agent.Close)
	return agent.URL
}

// Without the module the daemon discovers containers through the agent. A container is
// admitted when its executor asks, found again after a restart, and released when it
// ends.
func TestDiscoveredContainers(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	has := true
	agent, err := mesosagent.New(mesosagent.ClientConfig{AgentURL: operatorAPI(t, &has), MinInterval: time.Nanosecond, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	limiter := recordingLimiter{admitted: map[string]int64{}}
	g := newDiscoveredContainers(map[string]discoveredContainer{}, limiter, agent, func(string) bool { return false }, log)
	got, err := g.Share(t.Context(), "c")
	if err != nil || got.Environment["OF"] != "c" || len(got.Shares) != 1 || got.Shares[0].MemMiB != 64 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := g.Share(t.Context(), "other"); err == nil {
		t.Error("an unknown container is admitted")
	}
	if h := g.listHolders(); len(h) != 1 || h[0].Container != "c" || h[0].Devices[0] != "GPU-a" {
		t.Errorf("holders %+v", h)
	}
	clear(limiter.admitted)
	g = newDiscoveredContainers(map[string]discoveredContainer{}, limiter, agent, func(string) bool { return false }, log)
	g.reconcileAdmitted(t.Context())
	if limiter.admitted["c"] != 64 {
		t.Errorf("the next daemon admitted %v", limiter.admitted)
	}
	has = false
	if err := agent.RefreshState(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.reconcileAdmitted(t.Context())
	if len(limiter.admitted) != 0 || len(g.listHolders()) != 0 {
		t.Errorf("left are %v", limiter.admitted)
	}
}

// limiterFunc is a limiter that calls a function while it admits a container.
type limiterFunc struct {
	share.NoLimiter
	admit func(container string)
}

func (f limiterFunc) AdmitContainer(_ context.Context, container string, _ []gpu.DeviceShare) (share.LimitSetup, error) {
	f.admit(container)
	return share.LimitSetup{}, nil
}

// TestClaimDuringAdmissionLeavesOneHolder: a container that its executor claims while it is admitted as a discovered one has one
// holder, with its owner. A second one without owner would hide it in the metrics for as long as the container runs.
func TestClaimDuringAdmissionLeavesOneHolder(t *testing.T) {
	has, managed := true, false
	log, _ := logtest.NewNullLogger()
	agent, err := mesosagent.New(mesosagent.ClientConfig{AgentURL: operatorAPI(t, &has), Log: log, MinInterval: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	var c *discoveredContainers
	limiter := limiterFunc{admit: func(container string) {
		managed = true
		c.forgetAdmitted(container)
	}}
	c = newDiscoveredContainers(map[string]discoveredContainer{}, limiter, agent, func(string) bool { return managed }, log)
	if err := agent.RefreshState(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.reconcileAdmitted(t.Context())
	if list := c.listHolders(); !managed || len(list) != 0 {
		t.Errorf("claimed: %t, discovered holders: %+v, want none", managed, list)
	}
}

// A container that was managed and has ended is not discovered, although the agent still reports
// it: in its last report, and until it has removed the container itself.
func TestReleasedContainersAreNotDiscovered(t *testing.T) {
	for name, end := range map[string]func(managedContainers) error{
		"cleanup":            func(b managedContainers) error { return b.Cleanup("c") },
		"recovery of others": func(b managedContainers) error { return b.Recover([]string{"other"}) },
	} {
		t.Run(name, func(t *testing.T) {
			log, _ := logtest.NewNullLogger()
			has := true
			agent, err := mesosagent.New(mesosagent.ClientConfig{AgentURL: operatorAPI(t, &has), MinInterval: time.Nanosecond, Log: log})
			if err != nil {
				t.Fatal(err)
			}
			limiter := recordingLimiter{admitted: map[string]int64{}}
			manager, err := containers.Open(containers.ManagerConfig{
				Kernel: kerneltest.New("GPU-a"), Dir: t.TempDir(), Limiter: limiter, Log: log,
				LookUpShare: func(string) (gpu.DeviceShare, bool) {
					return gpu.DeviceShare{UUID: "GPU-a", MemMiB: 100, Cores: 100}, true
				},
				DriverVolume: func(context.Context) (string, error) { return "/volume", nil },
				NeedsDriver:  func(_, _ map[string]string) (bool, error) { return false, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			b := managedContainers{Manager: manager, denyByDefault: func() error { return nil }, ended: make(chan struct{}, 1)}
			b.discovered = newDiscoveredContainers(map[string]discoveredContainer{}, limiter, agent, b.isKnown, log)
			refresh := func() {
				t.Helper()
				if err := agent.RefreshState(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			wantNone := func(when string) {
				t.Helper()
				b.discovered.reconcileAdmitted(t.Context())
				if len(limiter.admitted) != 0 || len(b.Holders()) != 0 {
					t.Errorf("%s: admitted %v, holders %v", when, limiter.admitted, b.Holders())
				}
			}
			launch := containers.LaunchRequest{
				Container: "c",
				Resources: []allocation.MesosResource{{Name: "gpu_mem.GPU-a", Scalar: 64}, {Name: "gpu_cores.GPU-a", Scalar: 10}},
			}
			if _, err := b.Prepare(t.Context(), launch); err != nil {
				t.Fatal(err)
			}
			refresh()
			b.discovered.reconcileAdmitted(t.Context())
			if limiter.admitted["c"] != 64 || len(b.Holders()) != 1 {
				t.Fatalf("while it runs: admitted %v, holders %v", limiter.admitted, b.Holders())
			}
			if err := end(b); err != nil {
				t.Fatal(err)
			}
			wantNone("with an earlier report")
			refresh()
			wantNone("until the agent has removed it")
			if _, err := b.Share(t.Context(), "c"); err == nil {
				t.Error("its shares are admitted on request")
			}
			wantNone("after a request")
			has = false
			refresh()
			wantNone("after the agent has removed it")
			if len(b.discovered.released) != 0 {
				t.Errorf("still remembered: %v", b.discovered.released)
			}
		})
	}
}

// notifyingLimiter is a limiter that reports admissions on a channel.
type notifyingLimiter struct {
	recordingLimiter
	who chan string
}

func (l notifyingLimiter) AdmitContainer(_ context.Context, container string, _ []gpu.DeviceShare) (share.LimitSetup, error) {
	l.who <- container
	return share.LimitSetup{}, nil
}

// Containers of an earlier daemon are found immediately after the start, not at the first
// poll ten seconds later.
func TestDiscoveryRunsAtStart(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	has := true
	agent, err := mesosagent.New(mesosagent.ClientConfig{AgentURL: operatorAPI(t, &has), MinInterval: time.Nanosecond, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	l := notifyingLimiter{who: make(chan string, 1)}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	began := time.Now()
	claims := newTestClaims(t, agent, t.TempDir(), gpu.Host{Devices: []gpu.Device{{UUID: "GPU-a"}}}, l)
	go func() { ended <- claims.runDiscovery(ctx) }()
	if got := <-l.who; got != "c" {
		t.Errorf("admitted %s, want c", got)
	}
	if took := time.Since(began); took >= discoveryInterval {
		t.Errorf("found after %s", took)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A device whose shares the limiter cannot enforce is not shared; neither is a GPU with
// such a MIG device.
func TestSharingRequiresSupportingLimiter(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	devices := []gpu.Device{{UUID: "GPU-a"}, {UUID: "MIG-b", MIG: &gpu.MIG{Parent: "GPU-b"}}}
	forms, err := share.OpenModes(share.ModeConfig{
		Host:     gpu.Host{Devices: devices},
		Scaling:  share.ShareScaling{Memory: 1, Cores: 1},
		StateDir: t.TempDir(),
		Live:     true,
		Log:      log,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := deviceSharing{ModeStore: forms, limiter: share.NewMIGLimiter(), devices: devices}
	if err := s.Set("GPU-a", true); !errors.Is(err, share.ErrNoLimiter) ||
		!strings.Contains(err.Error(), "share device GPU-a: this agent cannot enforce shares of it by mig: ") {
		t.Errorf("a whole GPU by MIG: got %v", err)
	}
	for _, name := range []string{"GPU-b", "MIG-b"} {
		if err := s.Set(name, true); err != nil {
			t.Error(err)
		}
	}
	if err := s.Set("GPU-a", false); err != nil {
		t.Errorf("unshare: %v", err)
	}
	s.limiter = mpsLike{}
	if err := s.Set("GPU-b", true); !errors.Is(err, share.ErrNoLimiter) {
		t.Errorf("a GPU of slices by what cannot hold them: got %v", err)
	}
}

// mpsLike does not support MIG devices.
type mpsLike struct{ share.NoLimiter }

func (mpsLike) CheckDevice(_ context.Context, d gpu.Device) error {
	if d.MIG != nil {
		return errors.New("a MIG device")
	}
	return nil
}

// A daemon that does not manage containers advertises shared devices, reports its mode,
// and rejects requests to change a device's mode.
func TestUnmanagedContainers(t *testing.T) {
	agent, calls := startMesosAgent(t)
	cfg := newConfig(t, agent)
	cfg.Socket, cfg.Unmanaged, cfg.SharedDevices, cfg.Scaling = filepath.Join(t.TempDir(), "agent.sock"), true, "0", share.ShareScaling{Memory: 2, Cores: 1}
	runDaemon(t, cfg)
	shared := simulatedHost(t).Devices[0]
	var names []string
	for len(names) == 0 {
		select {
		case call := <-calls:
			if call.Type == rp.CallUpdateState {
				for _, r := range call.UpdateState.Resources {
					names = append(names, r.Name)
				}
			}
		case <-time.After(time.Minute):
			t.Fatal("no UPDATE_STATE in a minute")
		}
	}
	if got, want := strings.Join(names, " "), "gpus gpu_ids "+gpu.MemResource(shared.UUID)+" "+gpu.CoresResource(shared.UUID); got != want {
		t.Errorf("advertised %s, want %s", got, want)
	}
	client := socket.NewDaemonClient(cfg.Socket)
	defer client.Close()
	devices, err := client.ListDevices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := devices[0].Share
	if s == nil || !s.Shared || s.MemMiB != 2*shared.MemMiB || s.Limit != gpu.NotEnforced || devices[1].Share != nil {
		t.Errorf("device 0 is %+v, device 1 %+v", s, devices[1].Share)
	}
	waits, err := client.SetShared(t.Context(), devices[1].Device.UUID, true)
	if err != nil || !waits { // this agent does not report devices in use
		t.Errorf("share: waits %v, %v", waits, err)
	}
	if err := client.CleanUpContainer(t.Context(), "c"); err == nil || !strings.Contains(err.Error(), "does not manage the containers") {
		t.Errorf("cleanup: %v", err)
	}
}
