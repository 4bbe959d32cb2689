package executor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/inmemory"
	"mesos-gpu/job"
)

// fakeAgent serves the agent's executor API. It sends every call to calls; answer returns
// the status of each. If answer is nil, the status is 200 or 202.
type fakeAgent struct {
	calls chan *executor.Call

	mu     sync.Mutex
	answer func(*executor.Call) int // set by setAnswer
	header http.Header              // of the last call
	stream chan executor.Event      // events of the current subscription
}

func newFakeAgent() *fakeAgent { return &fakeAgent{calls: make(chan *executor.Call, 100)} }

// setAnswer sets the function that returns the status of each later call.
func (a *fakeAgent) setAnswer(answer func(*executor.Call) int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

func (a *fakeAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	call := &executor.Call{}
	if err != nil || proto.Unmarshal(body, call) != nil || r.URL.Path != "/slave(1)/api/v1/executor" {
		http.Error(w, "malformed", http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	answer := a.answer
	a.mu.Unlock()
	if answer != nil {
		if code := answer(call); code >= 300 {
			http.Error(w, "refused by the test", code)
			return
		}
	}
	a.mu.Lock()
	a.header = r.Header.Clone()
	a.mu.Unlock()
	if call.GetType() != executor.Call_SUBSCRIBE {
		w.WriteHeader(http.StatusAccepted)
		a.calls <- call
		return
	}
	stream := make(chan executor.Event, 100)
	a.mu.Lock()
	a.stream = stream
	a.mu.Unlock()
	a.calls <- call
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(http.StatusOK)
	serveStream(w, r.Context(), stream)
}

func serveStream(w http.ResponseWriter, ctx context.Context, stream <-chan executor.Event) {
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for {
		select {
		case ev, ok := <-stream:
			if !ok {
				return
			}
			frame, err := proto.Marshal(&ev)
			if err != nil {
				panic(err)
			}
			fmt.Fprintf(w, "%d\n%s", len(frame), frame)
			_ = flush.Flush()
		case <-ctx.Done():
			return
		}
	}
}

func (a *fakeAgent) send(ev executor.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stream <- ev
}

// hangUp ends the subscription.
func (a *fakeAgent) hangUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.stream)
}

// fakeRuntime is a runtime for one task. The test controls its start and end and observes
// signals.
type fakeRuntime struct {
	start   chan error // Start returns when it receives a value
	exit    chan task.ExitStatus
	signals chan syscall.Signal
	got     task.TaskSpec
	aborted bool // the context of Start ended
	forced  bool // the context of Wait ended
}

func newFakeTask() *fakeRuntime {
	return &fakeRuntime{start: make(chan error, 1), exit: make(chan task.ExitStatus, 1), signals: make(chan syscall.Signal, 100)}
}

func (f *fakeRuntime) Start(ctx context.Context, t task.TaskSpec) (task.RunningTask, error) {
	f.got = t
	select {
	case err := <-f.start:
		return f, err
	case <-ctx.Done():
		f.aborted = true
		return nil, ctx.Err()
	}
}

func (f *fakeRuntime) Wait(ctx context.Context) (task.ExitStatus, error) {
	select {
	case exit := <-f.exit:
		return exit, nil
	case <-ctx.Done():
		f.forced = true
		return task.ExitStatus{}, ctx.Err()
	}
}

func (f *fakeRuntime) Signal(_ context.Context, sig syscall.Signal) error {
	f.signals <- sig
	return nil
}

// testRig is an executor, its agent and its task.
type testRig struct {
	t     *testing.T
	agent *fakeAgent
	task  *fakeRuntime
	cfg   ExecutorConfig
	done  chan error
	stop  context.CancelFunc
	// container and resources are the executor's values in SUBSCRIBED.
	container string
	resources []mesos.Resource
}

// newRig returns an executor that reaches its agent in memory.
func newRig(t *testing.T) *testRig {
	log := logrus.New()
	log.SetOutput(t.Output())
	r := &testRig{t: t, agent: newFakeAgent(), task: newFakeTask(), done: make(chan error, 1), container: "container"}
	r.cfg = ExecutorConfig{
		Endpoint: "agent:5051", FrameworkID: "framework", ExecutorID: "executor", Sandbox: t.TempDir(),
		ShutdownGrace:   5 * time.Second,
		ReadGrantedGPUs: func() (gpu.DeviceAccess, error) { return gpu.DeviceAccess{Confined: true}, nil },
		PrepareVolume:   func(context.Context) (string, error) { return "", nil },
		Runtimes:        map[job.Containerizer]task.Runtime{job.Docker: r.task, job.Mesos: r.task},
		Transport:       inmemory.HandlerTransport{Handler: r.agent},
		Log:             log,
	}
	return r
}

func (r *testRig) run() *testRig {
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.done <- Run(ctx, r.cfg) }()
	r.t.Cleanup(stop)
	return r
}

// subscribed waits for the SUBSCRIBE call and answers it.
func (r *testRig) subscribed(capabilities ...mesos.FrameworkInfo_Capability_Type) *executor.Call_Subscribe {
	r.t.Helper()
	call := <-r.agent.calls
	if call.GetType() != executor.Call_SUBSCRIBE {
		r.t.Fatalf("got call %s, want SUBSCRIBE", call.GetType())
	}
	if call.FrameworkID.Value != "framework" || call.ExecutorID.Value != "executor" {
		r.t.Errorf("subscribed as %s of %s, want executor of framework", call.ExecutorID.Value, call.FrameworkID.Value)
	}
	s := &executor.Event_Subscribed{
		ExecutorInfo: mesos.ExecutorInfo{ExecutorID: mesos.ExecutorID{Value: "executor"}, Resources: r.resources},
		ContainerID:  &mesos.ContainerID{Value: r.container},
	}
	for _, c := range capabilities {
		s.FrameworkInfo.Capabilities = append(s.FrameworkInfo.Capabilities, mesos.FrameworkInfo_Capability{Type: c})
	}
	r.agent.send(executor.Event{Type: executor.Event_SUBSCRIBED, Subscribed: s})
	return call.Subscribe
}

func (r *testRig) launch(info mesos.TaskInfo) {
	r.agent.send(executor.Event{Type: executor.Event_LAUNCH, Launch: &executor.Event_Launch{Task: info}})
}

func (r *testRig) kill(grace time.Duration) {
	k := &executor.Event_Kill{TaskID: mesos.TaskID{Value: "t1"}}
	if grace >= 0 {
		k.KillPolicy = &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: int64(grace)}}
	}
	r.agent.send(executor.Event{Type: executor.Event_KILL, Kill: k})
}

func (r *testRig) shutdown() { r.agent.send(executor.Event{Type: executor.Event_SHUTDOWN}) }

// update waits for the next UPDATE call and checks its state.
func (r *testRig) update(want mesos.TaskState) mesos.TaskStatus {
	r.t.Helper()
	call := <-r.agent.calls
	if call.GetType() != executor.Call_UPDATE {
		r.t.Fatalf("got call %s, want UPDATE", call.GetType())
	}
	s := call.Update.Status
	if s.GetState() != want {
		r.t.Fatalf("got %s (%s), want %s", s.GetState(), s.GetMessage(), want)
	}
	return s
}

func (r *testRig) acknowledge(s mesos.TaskStatus) {
	r.agent.send(executor.Event{Type: executor.Event_ACKNOWLEDGED, Acknowledged: &executor.Event_Acknowledged{TaskID: s.TaskID, UUID: s.UUID}})
}

// running brings a launched task to TASK_RUNNING.
func (r *testRig) running() {
	r.t.Helper()
	r.acknowledge(r.update(mesos.TASK_STARTING))
	r.task.start <- nil
	r.acknowledge(r.update(mesos.TASK_RUNNING))
}

// patience limits the wait for an executor that does not act, in the time of a synctest bubble.
const patience = 24 * time.Hour

func (r *testRig) ended() (err error) {
	r.t.Helper()
	select {
	case err = <-r.done:
	case <-time.After(patience):
		r.t.Fatalf("the executor has not ended within %s", patience)
	}
	return err
}

func (r *testRig) endedWell() {
	r.t.Helper()
	if err := r.ended(); err != nil {
		r.t.Errorf("executor ended with: %v", err)
	}
}

// info returns the TaskInfo with which our framework launches the task.
func info(t *testing.T, w task.TaskSpec) mesos.TaskInfo {
	t.Helper()
	amount := func(name string, x float64) mesos.Resource {
		return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: x}}
	}
	i := mesos.TaskInfo{
		Name: "job", TaskID: mesos.TaskID{Value: "t1"},
		Data:       marshal(t, job.LaunchData{Version: job.LaunchVersion, Job: w.Job, Index: w.Index, Command: w.Argv, Env: w.Env, Secrets: w.Secrets}),
		Resources:  []mesos.Resource{amount("cpus", w.CPUs), amount("mem", w.MemMiB), amount("disk", w.DiskMiB), amount("gpus", float64(w.GPUs))},
		KillPolicy: &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: int64(w.KillGrace)}},
	}
	if w.Role != "" {
		for at := range i.Resources {
			i.Resources[at].AllocationInfo = &mesos.Resource_AllocationInfo{Role: &w.Role}
		}
	}
	if len(w.DeviceIDs) > 0 {
		i.Resources = append(i.Resources, mesos.Resource{Name: "gpu_ids", Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: w.DeviceIDs}})
	}
	switch {
	case w.Containerizer == job.Docker:
		i.Container = dockerInfo(func(c *mesos.ContainerInfo) { c.Docker.Image = cmp.Or(w.Image, c.Docker.Image) })
	case w.Image != "":
		i.Container = &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum(), Mesos: &mesos.ContainerInfo_MesosInfo{
			Image: &mesos.Image{Type: mesos.Image_DOCKER.Enum(), Docker: &mesos.Image_Docker{Name: w.Image}},
		}}
	}
	return i
}

// unprobedRuntime starts its task even if ctx has ended.
type unprobedRuntime struct{ *fakeRuntime }

func (d unprobedRuntime) Start(_ context.Context, t task.TaskSpec) (task.RunningTask, error) {
	d.got = t
	return d.fakeRuntime, <-d.start
}
