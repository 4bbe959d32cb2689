package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/agent"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/testing/kerneltest"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/mesosagent"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/socket"
)

// reportedTask is a task of the fake agent, whose executor has the container of the same name.
type reportedTask struct {
	state     mesos.TaskState
	resources []mesos.Resource
	pid       uint32
	// noTask is set for an executor whose task has ended.
	noTask bool
}

// fakeOperator is the operator API of an agent whose tasks the test sets, by container.
type fakeOperator struct {
	url string

	mu    sync.Mutex
	tasks map[string]reportedTask
	down  bool
}

func startFakeOperator(t *testing.T) *fakeOperator {
	t.Helper()
	f := &fakeOperator{tasks: map[string]reportedTask{}}
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(w, r) }))
	t.Cleanup(agent.Close)
	f.url = agent.URL
	return f
}

func (f *fakeOperator) serve(w http.ResponseWriter, r *http.Request) {
	call := new(operator.Call)
	if err := mesosapi.ReadCall(r, call); err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	f.mu.Lock()
	tasks, down := maps.Clone(f.tasks), f.down
	f.mu.Unlock()
	if down {
		http.Error(w, "Agent has not finished recovery", http.StatusServiceUnavailable)
		return
	}
	response := &operator.Response{
		Type: operator.Response_Type(call.Type), GetContainers: &operator.Response_GetContainers{},
		GetExecutors: &operator.Response_GetExecutors{}, GetTasks: &operator.Response_GetTasks{}, GetState: &operator.Response_GetState{},
		GetAgent: &operator.Response_GetAgent{AgentInfo: &mesos.AgentInfo{ID: &mesos.AgentID{Value: "agent"}}},
	}
	label := "job"
	for _, id := range slices.Sorted(maps.Keys(tasks)) {
		task, framework, executor := tasks[id], mesos.FrameworkID{Value: "f"}, mesos.ExecutorID{Value: "e-" + id}
		response.GetContainers.Containers = append(response.GetContainers.Containers, operator.Response_GetContainers_Container{
			FrameworkID: &framework, ExecutorID: &executor, ContainerID: mesos.ContainerID{Value: id},
			ContainerStatus: &mesos.ContainerStatus{ExecutorPID: &task.pid},
		})
		if task.noTask {
			continue
		}
		response.GetTasks.LaunchedTasks = append(response.GetTasks.LaunchedTasks, mesos.Task{
			TaskID: mesos.TaskID{Value: "t-" + id}, FrameworkID: framework, ExecutorID: &executor, State: task.state.Enum(),
			Labels: &mesos.Labels{Labels: []mesos.Label{{Key: "mesos-gpu.job", Value: &label}}}, Resources: task.resources,
		})
	}
	mesosapi.WriteResponse(w, r, response)
}

func (f *fakeOperator) set(container string, task reportedTask) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tasks[container] = task
}

func (f *fakeOperator) remove(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range names {
		delete(f.tasks, id)
	}
}

// wholeGPUs are the resources of a task with those devices.
func wholeGPUs(ids ...string) []mesos.Resource {
	return []mesos.Resource{
		{Name: "gpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: float64(len(ids))}},
		{Name: "gpu_ids", Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: ids}},
	}
}

// shareOf are the resources of a task with a share of a device.
func shareOf(id string, mib, cores float64) []mesos.Resource {
	scalar := func(name string, v float64) mesos.Resource {
		return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: v}}
	}
	return []mesos.Resource{scalar(gpu.MemResource(id), mib), scalar(gpu.CoresResource(id), cores)}
}

// claimsHost has two whole GPUs, a shared one, and a GPU in MIG mode with two MIG devices. It also
// lists that GPU itself, as before it was partitioned.
var claimsHost = gpu.Host{Devices: []gpu.Device{
	{UUID: "GPU-a"}, {UUID: "GPU-b", Minor: 1}, {UUID: "GPU-s", Minor: 2}, {UUID: "GPU-m", Minor: 3},
	{UUID: "MIG-1", Minor: 3, MIG: &gpu.MIG{Parent: "GPU-m"}}, {UUID: "MIG-2", Minor: 3, MIG: &gpu.MIG{Parent: "GPU-m"}},
}}

func shareOfHundred(uuid string) (gpu.DeviceShare, bool) {
	return gpu.DeviceShare{UUID: uuid, MemMiB: 100, Cores: 100}, uuid == "GPU-s"
}

// newTestClaims returns the claims of a daemon with those records, which sees no processes.
func newTestClaims(t *testing.T, agent *mesosagent.AgentClient, dir string, h gpu.Host, l share.Limiter) *deviceClaims {
	t.Helper()
	log, _ := logtest.NewNullLogger()
	manager, err := containers.Open(containers.ManagerConfig{
		Kernel: kerneltest.New(deviceIDs(h.Devices)...), Dir: dir, Limiter: l, LookUpShare: shareOfHundred, Log: log,
		LookUpParent: func(uuid string) string { return parentGPU(h, uuid) },
		DriverVolume: func(context.Context) (string, error) { return "/volume", nil },
		NeedsDriver:  func(_, _ map[string]string) (bool, error) { return false, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	b := managedContainers{Manager: manager}
	return &deviceClaims{
		manager: manager, agent: agent, discovered: newDiscoveredContainers(map[string]discoveredContainer{}, l, agent, b.isKnown, log),
		host: h, processes: processFinder{procRoot: t.TempDir()}, setHolders: func(map[string]string) {}, log: log, seen: map[string]time.Time{},
	}
}

// claimsRig is a daemon's claims with the agent that they follow.
type claimsRig struct {
	*deviceClaims
	t       *testing.T
	agent   *fakeOperator
	client  *mesosagent.AgentClient
	dir     string
	holders map[string]string // what is withheld
}

func newClaimsRig(t *testing.T) *claimsRig {
	t.Helper()
	r := &claimsRig{t: t, agent: startFakeOperator(t), dir: t.TempDir()}
	r.restart()
	return r
}

// restart replaces the daemon by one with the same records.
func (r *claimsRig) restart() {
	r.t.Helper()
	log, _ := logtest.NewNullLogger()
	var err error
	r.client, err = mesosagent.New(mesosagent.ClientConfig{AgentURL: r.agent.url, MinInterval: time.Nanosecond, Log: log})
	if err != nil {
		r.t.Fatal(err)
	}
	r.deviceClaims = newTestClaims(r.t, r.client, r.dir, claimsHost, share.NoLimiter{})
	r.setHolders = func(h map[string]string) { r.holders = h }
}

// launch has the agent report a container that has been launched, and claim its devices.
func (r *claimsRig) launch(container string, resources []mesos.Resource) error {
	r.agent.set(container, reportedTask{state: mesos.TASK_STARTING, resources: resources})
	return r.claim(container)
}

func (r *claimsRig) claim(container string) error {
	_, err := r.Claim(r.t.Context(), containers.ClaimRequest{Container: container})
	return err
}

// refresh queries the agent and reconciles.
func (r *claimsRig) refresh() {
	r.t.Helper()
	if err := r.client.RefreshState(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.reconcileAll(r.t.Context())
}

func (r *claimsRig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// wantHeld checks that a claim was refused because of that holder.
func (r *claimsRig) wantHeld(err error, device, holder string) {
	r.t.Helper()
	if err == nil {
		r.t.Fatalf("the daemon let a second container take %s, which container %s holds: its claims are not checked, or not kept", device, holder)
	}
	held := (*containers.DeviceHeldError)(nil)
	if !errors.As(err, &held) || held.Device != device || len(held.Holders) == 0 || held.Holders[0].Container != holder {
		r.t.Fatalf("got %v, want %s held by %s", err, device, holder)
	}
}

// A device has one holder, whatever the agent's tasks name. The error describes the holder; a
// repeated claim succeeds; the device is free once the agent reports the end of the holder's task,
// although its executor still runs.
func TestClaimOfHeldDeviceIsRefused(t *testing.T) {
	r := newClaimsRig(t)
	r.must(r.launch("c1", wholeGPUs("GPU-a", "GPU-b")))
	r.must(r.claim("c1"))
	err := r.launch("c2", wholeGPUs("GPU-a"))
	r.wantHeld(err, "GPU-a", "c1")
	want := "GPU GPU-a is held by container c1 (task t-c1 of framework f, job job): end the holder or wait for its end; " +
		"mesos-gpu agent devices on this machine shows it"
	if !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %q, want %q", err, want)
	}
	r.agent.set("c1", reportedTask{state: mesos.TASK_RUNNING, resources: wholeGPUs("GPU-a", "GPU-b")})
	r.wantHeld(r.claim("c2"), "GPU-a", "c1")
	if len(r.holders) != 0 {
		t.Errorf("devices of the agent's own tasks are withheld: %v", r.holders)
	}
	r.agent.set("c1", reportedTask{noTask: true})
	r.must(r.claim("c2"))
	if h := r.manager.Holders(); len(h) != 1 || h[0].Container != "c2" || h[0].Task != "t-c2" || h[0].Job != "job" || h[0].Framework != "f" {
		t.Errorf("holders %+v", h)
	}
}

// What is in the way of a claim: MIG devices and their GPU, shares and whole devices, the sums of
// shares. Two MIG devices of a GPU are not in each other's way.
func TestClaimConflicts(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second []mesos.Resource
		want          string // part of the error; empty if both get theirs
	}{
		{"another GPU", wholeGPUs("GPU-a"), wholeGPUs("GPU-b"), ""},
		{"one of two", wholeGPUs("GPU-a"), wholeGPUs("GPU-b", "GPU-a"), "GPU GPU-a is held by container c1"},
		{"MIG device of a held GPU", wholeGPUs("GPU-m"), wholeGPUs("MIG-1"), "GPU MIG-1 is held by container c1"},
		{"GPU of a held MIG device", wholeGPUs("MIG-1"), wholeGPUs("GPU-m"), "GPU GPU-m is held by container c1"},
		{"two MIG devices", wholeGPUs("MIG-1"), wholeGPUs("MIG-2"), ""},
		{"one MIG device", wholeGPUs("MIG-1"), wholeGPUs("MIG-1"), "GPU MIG-1 is held by container c1"},
		{"shares that fit", shareOf("GPU-s", 60, 50), shareOf("GPU-s", 40, 50), ""},
		{"too much memory", shareOf("GPU-s", 60, 50), shareOf("GPU-s", 41, 50), "container c2 requests 41 MiB of device GPU-s, 40 of its 100 MiB are free"},
		{"too many cores", shareOf("GPU-s", 60, 50), shareOf("GPU-s", 40, 51), "container c2 requests 51 % of the cores of device GPU-s, 50 of 100 % are free"},
		{"whole of a shared device", shareOf("GPU-s", 1, 0), wholeGPUs("GPU-s"), "GPU GPU-s is held by container c1"},
		{"whole of a device to share", nil, wholeGPUs("GPU-s"), "which is shared: request a share of it"},
		{"share of a whole device", wholeGPUs("GPU-a"), shareOf("GPU-a", 1, 0), "GPU GPU-a is held by container c1"},
		{"device of another machine", nil, wholeGPUs("GPU-x"), "GPU-x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newClaimsRig(t)
			r.must(r.launch("c1", c.first))
			err := r.launch("c2", c.second)
			if err == nil && c.want != "" {
				t.Fatalf("the daemon let a second container take what container c1 holds: %s", c.name)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if rejected := (*allocation.RejectedError)(nil); err != nil && !errors.As(err, &rejected) {
				t.Errorf("%v is no rejection", err)
			}
		})
	}
}

// Of many containers that claim one device at the same time exactly one gets it.
func TestOneOfManyClaimsSucceeds(t *testing.T) {
	r := newClaimsRig(t)
	const n = 24
	for i := range n {
		r.agent.set(fmt.Sprint("c", i), reportedTask{state: mesos.TASK_STARTING, resources: wholeGPUs("GPU-a")})
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = r.claim(fmt.Sprint("c", i)) })
	}
	all.Wait()
	won := slices.Index(errs, nil)
	if won < 0 || slices.Contains(errs[won+1:], nil) {
		t.Fatalf("the daemon let none or several of %d containers take GPU-a: %v", n, errs)
	}
	for i, err := range errs {
		if i != won {
			r.wantHeld(err, "GPU-a", fmt.Sprint("c", won))
		}
	}
}

// A claim survives a restart of the daemon, also while the agent does not answer.
func TestClaimsSurviveRestart(t *testing.T) {
	r := newClaimsRig(t)
	r.must(r.launch("c1", wholeGPUs("GPU-a")))
	r.must(r.launch("c2", shareOf("GPU-s", 60, 10)))
	r.restart()
	r.agent.down = true
	if err := r.launch("c3", wholeGPUs("GPU-a")); err == nil || !strings.Contains(err.Error(), "Agent has not finished recovery") {
		t.Errorf("without the agent: %v", err)
	}
	r.agent.down = false
	r.wantHeld(r.claim("c3"), "GPU-a", "c1")
	r.must(r.claim("c1"))
	if err := r.launch("c4", shareOf("GPU-s", 41, 0)); err == nil || !strings.Contains(err.Error(), "40 of its 100 MiB are free") {
		t.Errorf("the share is lost: %v", err)
	}
	r.agent.remove("c1", "c2")
	r.must(r.claim("c3"))
	r.must(r.claim("c4"))
}

// A container of another framework that claims nothing holds its devices once its task runs. Until
// then the first to claim wins, so that two executors cannot refuse each other.
func TestRunningContainersHoldWithoutClaim(t *testing.T) {
	r := newClaimsRig(t)
	r.agent.set("foreign", reportedTask{state: mesos.TASK_RUNNING, resources: wholeGPUs("GPU-a")})
	r.agent.set("staging", reportedTask{state: mesos.TASK_STAGING, resources: wholeGPUs("GPU-b")})
	r.wantHeld(r.launch("c1", wholeGPUs("GPU-a")), "GPU-a", "foreign")
	r.must(r.launch("c2", wholeGPUs("GPU-b")))
	r.agent.set("staging", reportedTask{state: mesos.TASK_RUNNING, resources: wholeGPUs("GPU-b")})
	r.refresh()
	r.agent.remove("c2")
	r.wantHeld(r.launch("c3", wholeGPUs("GPU-b")), "GPU-b", "staging")
	r.agent.remove("staging", "foreign")
	r.must(r.claim("c3"))
	r.must(r.claim("c1"))
}

// The daemon gives a container nothing that the agent did not give it.
func TestClaimFollowsAgentsReport(t *testing.T) {
	r := newClaimsRig(t)
	if err := r.claim("unknown"); err == nil || !strings.Contains(err.Error(), "the agent reports 0 containers, and not this one") {
		t.Errorf("got %v", err)
	}
	r.agent.set("c1", reportedTask{state: mesos.TASK_STARTING, resources: wholeGPUs("GPU-a")})
	got, err := r.Claim(t.Context(), containers.ClaimRequest{Container: "c1", Devices: []string{"GPU-b"}})
	if rejected := (*allocation.RejectedError)(nil); !errors.As(err, &rejected) ||
		!strings.Contains(err.Error(), "the agent gave it 1 GPUs, and GPU-b is not one of them") {
		t.Errorf("got %+v, %v", got, err)
	}
	if h := r.manager.Holders(); len(h) != 0 {
		t.Errorf("holders %+v", h)
	}
	r.agent.set("c2", reportedTask{state: mesos.TASK_STARTING})
	got, err = r.Claim(t.Context(), containers.ClaimRequest{Container: "c2"})
	if err != nil || len(got.Devices) != 0 || len(r.manager.Holders()) != 0 {
		t.Errorf("a container without devices: %+v, %v", got, err)
	}
	if err := r.claim("c1.nested"); err == nil {
		t.Error("a nested container claims devices")
	}
}

// What the module has prepared is confirmed without the agent, and conflicts with claims in both
// directions. A recovery of the module's containers keeps the claims.
func TestClaimsWithModule(t *testing.T) {
	r := newClaimsRig(t)
	prepare := func(id, device string) error {
		_, err := r.manager.Prepare(t.Context(), containers.LaunchRequest{Container: id, Executor: "e", Task: "t", Resources: []allocation.MesosResource{
			{Name: "gpus", Scalar: 1}, {Name: "gpu_ids", Set: []string{device}},
		}})
		return err
	}
	r.must(prepare("p1", "GPU-a"))
	r.agent.down = true
	got, err := r.Claim(t.Context(), containers.ClaimRequest{Container: "p1", Devices: []string{"GPU-a"}})
	if err != nil || !slices.Equal(got.Devices, []string{"GPU-a"}) || got.Task != "t" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := r.Claim(t.Context(), containers.ClaimRequest{Container: "p1", Devices: []string{"GPU-b"}}); err == nil ||
		!strings.Contains(err.Error(), "was prepared with 1 GPUs, and GPU-b is not one of them") {
		t.Errorf("a device that was not prepared: %v", err)
	}
	r.agent.down = false
	r.wantHeld(r.launch("c1", wholeGPUs("GPU-a")), "GPU-a", "p1")
	r.must(r.launch("c2", wholeGPUs("GPU-b")))
	if err := prepare("p2", "GPU-b"); err == nil || !strings.Contains(err.Error(), "GPU-b is held by container c2") {
		t.Errorf("prepared despite a claim: %v", err)
	}
	r.must(r.manager.Recover(nil))
	r.must(r.claim("c1"))
	r.wantHeld(r.launch("c3", wholeGPUs("GPU-b")), "GPU-b", "c2")
	r.must(r.manager.Cleanup("c2"))
	r.must(r.claim("c3"))
}

// A container that the agent does not report keeps its devices while its executor runs, and they
// are withheld: a new agent on the machine knows nothing of the old one's containers.
func TestUnreportedContainerHoldsWhileItsExecutorRuns(t *testing.T) {
	r := newClaimsRig(t)
	r.processes.procRoot = "/proc"
	executor := exec.Command("sleep", "1000")
	r.must(executor.Start())
	end := sync.OnceFunc(func() {
		_ = executor.Process.Kill()
		_ = executor.Wait()
	})
	t.Cleanup(end)
	r.agent.set("old", reportedTask{state: mesos.TASK_STARTING, resources: wholeGPUs("MIG-1"), pid: uint32(executor.Process.Pid)})
	r.must(r.claim("old"))
	r.agent.remove("old")
	r.restart()
	r.processes.procRoot = "/proc"
	r.wantHeld(r.launch("new", wholeGPUs("MIG-1")), "MIG-1", "old")
	want := fmt.Sprintf("held by container old (task t-old of framework f, job job), which the Mesos agent does not report: "+
		"its executor runs as process %d: end it",
		executor.Process.Pid)
	if len(r.holders) != 2 || r.holders["MIG-1"] != want || r.holders["GPU-m"] != want {
		t.Errorf("withheld are %v", r.holders)
	}
	end()
	r.refresh()
	if len(r.holders) != 0 {
		t.Errorf("withheld are %v", r.holders)
	}
	r.must(r.claim("new"))
}

// The same, while any process is in the container's cgroup, or its Docker container exists.
func TestUnreportedContainerHoldsWhileAnythingIsLeft(t *testing.T) {
	r := newClaimsRig(t)
	r.must(r.launch("old", wholeGPUs("GPU-a")))
	r.agent.remove("old")
	process := filepath.Join(r.processes.procRoot, "4711")
	r.must(os.Mkdir(process, 0o700))
	r.must(os.WriteFile(filepath.Join(process, "cgroup"), []byte("4:devices:/mesos/old/mesos/nested\n"), 0o600))
	docker := []gpu.ContainerDevices{{Container: "old", Devices: []string{"GPU-a"}}}
	r.listDocker = func(context.Context) ([]gpu.ContainerDevices, error) { return docker, nil }
	r.refresh()
	if got := r.holders["GPU-a"]; !strings.HasSuffix(got, "process 4711 runs in its cgroup: end it; its Docker container exists: docker rm -f mesos-gpu-old") {
		t.Errorf("with a process: %q", got)
	}
	r.must(os.RemoveAll(process))
	r.wantHeld(r.launch("new", wholeGPUs("GPU-a")), "GPU-a", "old")
	swept := false
	r.removeOrphans = func(context.Context) error {
		swept, docker = true, nil
		return nil
	}
	r.must(r.claim("new"))
	if !swept || len(r.holders) != 0 {
		t.Errorf("orphans removed: %v, withheld %v", swept, r.holders)
	}
	r.agent.remove("new")
	r.listDocker = func(context.Context) ([]gpu.ContainerDevices, error) { return nil, errors.New("no engine") }
	r.refresh()
	if got := r.holders["GPU-a"]; !strings.HasSuffix(got, "whether it has a Docker container is not known: no engine") {
		t.Errorf("without the engine: %q", got)
	}
}

// A Docker container of an executor that neither the agent nor a claim names holds the devices
// that its labels name, also after a restart.
func TestUnknownDockerContainerHolds(t *testing.T) {
	r := newClaimsRig(t)
	docker := []gpu.ContainerDevices{{Container: "old", Task: "t", Devices: []string{"GPU-a", "GPU-elsewhere"}}}
	for range 2 {
		r.restart()
		r.listDocker = func(context.Context) ([]gpu.ContainerDevices, error) { return docker, nil }
		r.refresh()
		r.refresh()
		if len(r.holders) != 1 || !strings.HasPrefix(r.holders["GPU-a"], "held by container old (task t), which the Mesos agent does not report") {
			t.Errorf("withheld are %v", r.holders)
		}
		r.wantHeld(r.launch("new", wholeGPUs("GPU-a")), "GPU-a", "old")
	}
	docker = nil
	r.must(r.claim("new"))
}

// The whole daemon, with and without containers of its own: a claim over the socket is recorded,
// refused to others, and shown; the devices of a container that a new agent does not report leave
// the offers until its executor has ended.
func TestDaemonAnswersClaims(t *testing.T) {
	for name, unmanaged := range map[string]bool{"managed containers": false, "unmanaged containers": true} {
		t.Run(name, func(t *testing.T) {
			if !unmanaged {
				testneeds.RequireRoot(t)
			}
			tasks := startFakeOperator(t)
			agent, calls := startMesosAgentWith(t, tasks.serve)
			cfg := newConfig(t, agent)
			cfg.Socket, cfg.Unmanaged, cfg.CgroupsRoot = filepath.Join(t.TempDir(), "agent.sock"), unmanaged, "mesos-gpu-test-claims"
			cfg.RuntimeDir, cfg.DriverVolume, cfg.NeedsDriver = t.TempDir(), noVolume, needsNoDriver
			device := simulatedHost(t).Devices[0].UUID
			executor := exec.Command("sleep", "1000")
			if err := executor.Start(); err != nil {
				t.Fatal(err)
			}
			end := sync.OnceFunc(func() {
				_ = executor.Process.Kill()
				_ = executor.Wait()
			})
			t.Cleanup(end)
			tasks.set("c1", reportedTask{state: mesos.TASK_STARTING, resources: wholeGPUs(device), pid: uint32(executor.Process.Pid)})
			tasks.set("c2", reportedTask{state: mesos.TASK_STARTING, resources: wholeGPUs(device)})
			client := socket.NewDaemonClient(cfg.Socket)
			t.Cleanup(client.Close)
			claim := func(container string) error {
				_, err := client.ClaimDevices(t.Context(), container, []string{device})
				return err
			}
			t.Run("first daemon", func(t *testing.T) {
				runDaemon(t, cfg)
				wantOffered(t, calls)
				if err := claim("c1"); err != nil {
					t.Fatal(err)
				}
				said := (*socket.ResponseError)(nil)
				err := claim("c2")
				if err == nil {
					t.Fatalf("the daemon let a second container take %s, which container c1 holds: its claims are not checked, or not kept", device)
				}
				if !errors.As(err, &said) || said.Status != http.StatusConflict || said.Device != device ||
					len(said.Holders) != 1 || said.Holders[0].Task != "t-c1" {
					t.Fatalf("the second claim: %v", err)
				}
				if list, err := client.ListContainers(t.Context()); err != nil || len(list) != 1 || list[0].Container != "c1" || list[0].Job != "job" {
					t.Errorf("containers %+v, %v", list, err)
				}
			})
			tasks.remove("c1")
			runDaemon(t, cfg)
			if err := claim("c2"); err == nil {
				t.Fatalf("a daemon that has started again let a second container take %s, which container c1 holds", device)
			}
			want := fmt.Sprintf("%s held held by container c1 (task t-c1 of framework f, job job), which the Mesos agent does not report", device)
			withheld := wantResource(t, calls, gpu.WithheldResource)
			for len(withheld) == 0 {
				withheld = wantResource(t, calls, gpu.WithheldResource)
			}
			if len(withheld) != 1 || !strings.HasPrefix(withheld[0], want) {
				t.Errorf("withheld %v, want %q", withheld, want)
			}
			devices, err := client.ListDevices(t.Context())
			if err != nil || !slices.Equal(devices[0].Holders, []string{"c1"}) || !strings.Contains(devices[0].Condition.Holder, "end it") {
				t.Errorf("device %+v, %v", devices[0], err)
			}
			end()
			if err := claim("c2"); err != nil {
				t.Errorf("after its end: %v", err)
			}
			for len(withheld) != 0 {
				withheld = wantResource(t, calls, gpu.WithheldResource)
			}
		})
	}
}

// Two containers that hold one device already both hold it, also after a restart: it is free once
// both have ended.
func TestTwoHoldersSurviveRestart(t *testing.T) {
	r := newClaimsRig(t)
	for _, id := range []string{"c1", "c2"} {
		r.agent.set(id, reportedTask{state: mesos.TASK_RUNNING, resources: wholeGPUs("GPU-a")})
	}
	r.refresh()
	r.restart()
	if h := r.manager.Holders(); len(h) != 2 {
		t.Errorf("after the restart: %+v", h)
	}
	r.agent.remove("c1")
	r.wantHeld(r.launch("c3", wholeGPUs("GPU-a")), "GPU-a", "c2")
	r.agent.remove("c2")
	r.must(r.claim("c3"))
}

// A later process with the number of the executor's is not the executor.
func TestReusedProcessNumberHoldsNothing(t *testing.T) {
	r := newClaimsRig(t)
	stat := filepath.Join(r.processes.procRoot, "77", "stat")
	r.must(os.Mkdir(filepath.Dir(stat), 0o700))
	started := func(ticks int) {
		t.Helper()
		r.must(os.WriteFile(stat, fmt.Appendf(nil, "77 (a) b) S 1 %s%d 0 0\n", strings.Repeat("0 ", 17), ticks), 0o600))
	}
	started(100)
	r.agent.set("c1", reportedTask{state: mesos.TASK_STARTING, resources: wholeGPUs("GPU-a"), pid: 77})
	r.must(r.claim("c1"))
	r.agent.remove("c1")
	r.wantHeld(r.launch("c2", wholeGPUs("GPU-a")), "GPU-a", "c1")
	started(200)
	r.must(r.claim("c2"))
}

// A container that the module has released is not adopted, although the agent still reports its
// task as running.
func TestReleasedContainersAreNotAdopted(t *testing.T) {
	r := newClaimsRig(t)
	b := managedContainers{Manager: r.manager, discovered: r.discovered, ended: make(chan struct{}, 1)}
	_, err := b.Prepare(t.Context(), containers.LaunchRequest{
		Container: "p1",
		Resources: []allocation.MesosResource{{Name: "gpus", Scalar: 1}, {Name: "gpu_ids", Set: []string{"GPU-a"}}},
	})
	r.must(err)
	r.agent.set("p1", reportedTask{state: mesos.TASK_RUNNING, resources: wholeGPUs("GPU-a")})
	r.refresh()
	if claims := r.manager.ListClaims(); len(claims) != 0 {
		t.Errorf("a prepared container is a claim: %+v", claims)
	}
	r.must(b.Cleanup("p1"))
	r.refresh()
	if h := r.manager.Holders(); len(h) != 0 {
		t.Errorf("after its cleanup: %+v", h)
	}
}

// A container whose shares were discovered before it claimed them is listed once.
func TestClaimReplacesDiscoveredShares(t *testing.T) {
	r := newClaimsRig(t)
	r.agent.set("c1", reportedTask{state: mesos.TASK_STARTING, resources: shareOf("GPU-s", 10, 0)})
	r.refresh()
	r.discovered.reconcileAdmitted(t.Context())
	if len(r.discovered.listHolders()) != 1 {
		t.Fatal("not discovered")
	}
	r.must(r.claim("c1"))
	b := managedContainers{Manager: r.manager, discovered: r.discovered}
	if h := b.Holders(); len(h) != 1 {
		t.Errorf("holders %+v", h)
	}
}
