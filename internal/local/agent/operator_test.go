package agent

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/agent/calls"
	"github.com/mesos/mesos-go/api/v1/lib/recordio"

	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/minimesos/resource"
	api "mesos-gpu/internal/resourceprovider"
	"mesos-gpu/internal/testing/testneeds"
)

func (r *rig) get(call *agent.Call) *agent.Response {
	r.t.Helper()
	m, err := r.call(call)
	if err != nil {
		r.t.Fatalf("%v: %v", call.Type, err)
	}
	return m
}

func TestGetCalls(t *testing.T) {
	r := newRig(t, false, nil)
	info := r.get(calls.GetAgent()).GetAgent.AgentInfo
	if info.ID.Value != "agent-1" || info.Hostname != "127.0.0.1" || info.GetPort() == 0 || len(info.Resources) != 2 {
		t.Errorf("agent %v", info)
	}
	p := r.parent()
	if err := r.nest(below(p, "n"), argv("sleep", "1000"), nil); err != nil {
		t.Fatal(err)
	}
	nested := true
	for show, want := range map[*bool]int{nil: 1, &nested: 2} {
		got := r.get(&agent.Call{Type: agent.Call_GET_CONTAINERS, GetContainers: &agent.Call_GetContainers{ShowNested: show}}).GetContainers.Containers
		if len(got) != want || got[0].ContainerID.Value != p.Value || got[0].ContainerStatus.GetExecutorPID() == 0 {
			t.Errorf("containers %v, want %d", got, want)
		}
	}
	r.run(r.custom("ex"), newTask("t2", "true"))
	r.master.awaitStates(t, "t2", "RUNNING FINISHED")
	r.run(r.custom("mute", "FOREIGN=mute"), newTask("t3", ""))
	state := r.get(calls.GetState()).GetState
	for what, got := range map[string]int{
		"launched": len(state.GetTasks.LaunchedTasks), "queued": len(state.GetTasks.QueuedTasks),
		"ended": len(state.GetTasks.CompletedTasks) + len(state.GetTasks.TerminatedTasks),
	} {
		if got != 1 {
			t.Errorf("%d %s, want 1", got, what)
		}
	}
	if got := r.get(calls.GetExecutors()).GetExecutors.Executors; len(got) != 2 || got[0].ExecutorInfo.ExecutorID.Value != "ex" {
		t.Errorf("executors %v", got)
	}
	if got := r.get(calls.GetTasks()).GetTasks.LaunchedTasks[0]; got.TaskID.Value != "t1" || got.GetState() != mesos.TASK_RUNNING {
		t.Errorf("task %v", got)
	}
}

// TestTasksAreListedByPhase checks that a task is listed as terminated until its
// terminal status is acknowledged, also if more executors have ended since than
// are listed otherwise.
func TestTasksAreListedByPhase(t *testing.T) {
	r := newRig(t, false, nil)
	r.run(r.custom("completed"), newTask("completed", "exit"))
	r.master.awaitStates(t, "completed", "FAILED")
	r.master.awaitExit(t, "completed")
	r.run(r.custom("launched"), newTask("launched", "block"))
	r.master.awaitStates(t, "launched", "RUNNING")
	r.master.locked(func() { r.master.mute = true })
	r.run(r.custom("terminated"), newTask("terminated", "exit"))
	r.master.awaitStates(t, "terminated", "FAILED")
	r.master.awaitExit(t, "terminated")
	r.run(r.custom("queued", "FOREIGN=mute"), newTask("queued", ""))
	list := func() string {
		got := r.get(calls.GetTasks()).GetTasks
		var all []string
		for phase, tasks := range map[string][]mesos.Task{
			"queued":     got.QueuedTasks,
			"launched":   got.LaunchedTasks,
			"terminated": got.TerminatedTasks,
			"completed":  got.CompletedTasks,
		} {
			for _, task := range tasks {
				if task.TaskID.Value != phase {
					t.Errorf("task %s is listed as %s", task.TaskID.Value, phase)
				}
				all = append(all, phase+" "+task.GetState().String())
			}
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	if got, want := list(), "completed TASK_FAILED, launched TASK_RUNNING, queued TASK_STAGING, terminated TASK_FAILED"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// The list of ended executors is full.
	err := doOnLoop(t.Context(), r.agent.loop, func() error {
		terminated := r.agent.completed[1]
		for range maxCompleted {
			e := *terminated
			e.tasks = nil
			r.agent.completed = append(r.agent.completed, &e)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.master.agent.ShutdownExecutor(mesos.FrameworkID{Value: "fw"}, mesos.ExecutorID{Value: "queued"})
	r.master.awaitExit(t, "queued")
	if got := r.get(calls.GetTasks()).GetTasks.TerminatedTasks; len(got) != 2 {
		t.Errorf("terminated tasks %v, want 2", got)
	}
}

func TestSandboxFilesAreServed(t *testing.T) {
	r := newRig(t, false, nil)
	r.run(r.custom("ex"), newTask("t1", "printf 0123456789 > out; ln -s $PWD/out link; ln -s /etc/passwd escape"))
	r.master.awaitStates(t, "t1", "RUNNING FINISHED")
	const run = "/frameworks/fw/executors/ex/runs/latest/"
	real, err := os.Readlink(r.sandbox("ex"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{run + "out", run + "link", real + "/out"} {
		if got := r.get(calls.ReadFileWithLength(path, 2, 3)).ReadFile; string(got.Data) != "234" || got.Size_ != 10 {
			t.Errorf("%s: %q of %d", path, got.Data, got.Size_)
		}
	}
	for path, status := range map[string]int{
		run + "escape": 400, run + "../../../../../../../../etc/passwd": 404, "/etc/passwd": 404, run + "none": 404, run: 400,
	} {
		_, err := r.call(calls.ReadFile(path, 0))
		wantStatus(t, path, err, status, "")
	}
}

// post makes a call by plain HTTP.
func (r *rig) post(path, contentType, body string) (int, string) {
	r.t.Helper()
	resp, err := http.Post(r.server.URL+path, contentType, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func TestRefusedCalls(t *testing.T) {
	r := newRig(t, false, nil)
	r.run(r.custom("mute", "FOREIGN=mute"), newTask("t1", ""))
	ids := `"framework_id":{"value":"fw"},"executor_id":{"value":"mute"}`
	status := func(fields string) string {
		return `{"type":"UPDATE",` + ids + `,"update":{"status":{"task_id":{"value":"t1"}` + fields + `}}}`
	}
	const uuid = `,"uuid":"AAAAAAAAAAAAAAAAAAAAAA=="`
	for _, test := range []struct {
		path, contentType, body string
		status                  int
		text                    string
	}{
		{"/api/v1", mesosapi.JSON, `{"type":"GET_AGENT"}`, 200, `"hostname":"127.0.0.1"`},
		{"/slave(1)/api/v1", mesosapi.JSON, `{"type":"GET_AGENT"}`, 200, `"hostname":"127.0.0.1"`},
		{"/api/v1", mesosapi.JSON, `{"type":"PRUNE_IMAGES"}`, 501, "PRUNE_IMAGES"},
		{"/api/v1", mesosapi.JSON, `{"type":"READ_FILE"}`, 400, "read_file"},
		{"/api/v1", mesosapi.JSON, `{"type":"WAIT_NESTED_CONTAINER"}`, 400, "wait_nested_container"},
		{"/api/v1", "text/plain", `{}`, 415, ""},
		{"/elsewhere", mesosapi.JSON, `{}`, 404, ""},
		{"/api/v1/executor", mesosapi.JSON, `{"type":"HEARTBEAT",` + ids + `}`, 202, ""},
		{"/api/v1/executor", mesosapi.JSON, `{"type":"SUBSCRIBE",` + ids + `}`, 400, "subscribe"},
		{"/api/v1/executor", mesosapi.JSON, `{"type":"SUBSCRIBE","framework_id":{"value":"no"},"executor_id":{"value":"e"},"subscribe":{}}`, 400, "framework no"},
		{"/api/v1/executor", mesosapi.JSON, `{"type":"SUBSCRIBE","framework_id":{"value":"fw"},"executor_id":{"value":"e"},"subscribe":{}}`, 400, "executor e"},
		{"/api/v1/executor", mesosapi.JSON, `{"type":"MESSAGE",` + ids + `}`, 400, "unknown"},
		{"/api/v1/executor", mesosapi.JSON, status(`,"state":"TASK_RUNNING","source":"SOURCE_EXECUTOR"` + uuid), 403, "not subscribed"},
		{"/api/v1/executor", mesosapi.JSON, status(`,"state":"TASK_RUNNING","source":"SOURCE_EXECUTOR"`), 400, "uuid"},
		{"/api/v1/executor", mesosapi.JSON, status(`,"state":"TASK_RUNNING","source":"SOURCE_EXECUTOR","uuid":"eA=="`), 400, "16"},
		{"/api/v1/executor", mesosapi.JSON, status(`,"state":"TASK_RUNNING"` + uuid), 400, "SOURCE_EXECUTOR"},
		{"/api/v1/executor", mesosapi.JSON, status(`,"state":"TASK_STAGING","source":"SOURCE_EXECUTOR"` + uuid), 400, "STAGING"},
		{"/api/v1/executor", mesosapi.JSON, status(`,"state":"TASK_RUNNING","source":"SOURCE_EXECUTOR","executor_id":{"value":"x"}` + uuid), 400, "executor id"},
	} {
		if code, text := r.post(test.path, test.contentType, test.body); code != test.status || !strings.Contains(text, test.text) {
			t.Errorf("%s %s: %d %s, want %d %q", test.path, test.body, code, text, test.status, test.text)
		}
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if code, _ := r.post("/api/v1", mesosapi.JSON, `{"type":"GET_AGENT"}`); code != 503 {
		t.Errorf("a stopped agent answers %d", code)
	}
}

func TestHeartbeats(t *testing.T) {
	r := newRig(t, false, func(c *AgentConfig) { c.heartbeat = 20 * time.Millisecond })
	r.run(r.custom("ex"), newTask("t1", "block"))
	r.master.awaitStates(t, "t1", "RUNNING")
	r.master.await(t, "a heartbeat", func() bool {
		select {
		case r.master.changed <- struct{}{}: // look again
		default:
		}
		return strings.Contains(r.file("ex", "stdout"), "event HEARTBEAT")
	})
}

// provider connects a resource provider with one GPU-like resource. It answers
// PUBLISH_RESOURCES with the given status, and PublishUnknown with nothing.
func (r *rig) provider(answer api.PublishStatus) (leave func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	id := &mesos.ResourceProviderID{Value: "provider"}
	resp, err := r.providerCall(ctx, "", &api.ProviderCall{Type: api.CallSubscribe, Subscribe: &api.Subscribe{
		ResourceProviderInfo: mesos.ResourceProviderInfo{ID: id, Type: "test", Name: "gpus"},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	stream := resp.Header.Get(mesosapi.HeaderStreamID)
	// say makes a call. It ignores the error of a call that leave interrupts.
	say := func(call *api.ProviderCall) {
		call.ResourceProviderID = id
		if resp, err := r.providerCall(ctx, stream, call); err == nil {
			resp.Body.Close()
		}
	}
	extra := resource.NewScalar("widgets", 3)
	extra.ProviderID = id
	say(&api.ProviderCall{Type: api.CallUpdateState, UpdateState: &api.UpdateState{
		Resources: []mesos.Resource{extra}, ResourceVersionUUID: mesos.UUID{Value: []byte("v")},
	}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for events := recordio.NewReader(resp.Body); ; {
			frame, err := events.ReadFrame()
			if err != nil {
				return
			}
			var e api.ProviderEvent
			if proto.Unmarshal(frame, &e) == nil && e.PublishResources != nil && answer != api.PublishUnknown {
				say(&api.ProviderCall{Type: api.CallUpdatePublishResourcesStatus, UpdatePublishResourcesStatus: &api.UpdatePublishResourcesStatus{
					UUID: e.PublishResources.UUID, Status: answer,
				}})
			}
		}
	}()
	leave = func() {
		cancel()
		resp.Body.Close()
		<-done
	}
	r.t.Cleanup(leave)
	return leave
}

func (r *rig) providerCall(ctx context.Context, stream string, call *api.ProviderCall) (*http.Response, error) {
	body, err := proto.Marshal(call)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.server.URL+"/slave(1)/api/v1/resource_provider", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = http.Header{"Content-Type": {mesosapi.Protobuf}, "Accept": {mesosapi.Protobuf}, mesosapi.HeaderStreamID: {stream}}
	return http.DefaultClient.Do(req)
}

func TestResourceProvider(t *testing.T) {
	r := newRig(t, false, nil)
	leave := r.provider(api.PublishOK)
	total := func() int {
		last := r.master.totals[len(r.master.totals)-1]
		return len(last)
	}
	r.master.await(t, "the provider's resources", func() bool { return total() == 3 })
	if got := r.agent.providers.Resources(); len(got) != 1 {
		t.Errorf("resources of providers: %v", got)
	}
	widget := resource.NewScalar("widgets", 1)
	widget.ProviderID = &mesos.ResourceProviderID{Value: "provider"}
	r.run(r.custom("ex"), newTask("t1", "true", widget))
	r.master.awaitStates(t, "t1", "RUNNING FINISHED")
	leave()
	r.master.await(t, "the provider's resources to go", func() bool { return total() == 2 })
	r.run(r.custom("late"), newTask("t2", "true", widget))
	if last := r.master.awaitStates(t, "t2", "FAILED"); !strings.Contains(last.GetMessage(), "provider: it is not connected") {
		t.Errorf("status %v", last)
	}
	r.run(r.custom("ex"), newTask("t3", "true", widget))
	if last := r.master.awaitStates(t, "t3", "FAILED"); last.GetReason() != mesos.REASON_CONTAINER_UPDATE_FAILED {
		t.Errorf("status %v", last)
	}
	r.provider(api.PublishFailed)
	r.run(r.custom("refused"), newTask("t4", "true", widget))
	if last := r.master.awaitStates(t, "t4", "FAILED"); !strings.Contains(last.GetMessage(), "FAILED") {
		t.Errorf("status %v", last)
	}
}

func TestMemoryLimit(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err != nil {
		t.Skip("needs the cgroup v1 memory hierarchy")
	}
	r := newRig(t, true, nil)
	e := r.custom("ex")
	e.Resources = []mesos.Resource{resource.NewScalar("mem", 256)}
	r.run(e, newTask("t1", "oom"))
	last := r.master.awaitStates(t, "t1", "FAILED")
	if last.GetReason() != mesos.REASON_CONTAINER_LIMITATION_MEMORY ||
		!regexp.MustCompile(`^out of memory: the limit is 256 MiB, the peak was 25\d(\.\d)? MiB, with the executor$`).MatchString(last.GetMessage()) {
		t.Errorf("status %v", last)
	}
}

// TestAgentClearsContainersOfKilledAgent kills an agent and starts another in its work directory.
func TestAgentClearsContainersOfKilledAgent(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	work := t.TempDir()
	cmd := exec.Command(os.Args[0], "agent", work)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	second, err := New(AgentConfig{Log: testLog(), Master: newFakeMaster(), WorkDir: work, Addr: "127.0.0.1:1", ExecutorPath: os.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("a second agent in a work directory: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if left, _ := filepath.Glob("/sys/fs/cgroup/devices" + Cgroup(work) + "/*"); len(left) == 0 {
		t.Error("the killed agent left no container to clear away")
	}
	r := newRig(t, true, func(c *AgentConfig) { c.WorkDir = work })
	if _, err := os.Stat(filepath.Join(r.sandbox("ex"), "stopped")); err != nil {
		t.Errorf("the executor had no time to stop what it runs elsewhere: %v", err)
	}
	if left, _ := filepath.Glob("/sys/fs/cgroup/devices" + Cgroup(work) + "/*"); len(left) > 0 {
		t.Errorf("left after the next start: %v", left)
	}
	r.wantNothingLeft()
}

// doomedAgent is the agent that is killed. It prints a line when its task runs.
func doomedAgent(work string) error {
	m := newFakeMaster()
	r := &rig{master: m}
	a, err := New(AgentConfig{Log: testLog(), Master: m, WorkDir: work, Addr: "127.0.0.1:1", Root: true, ExecutorPath: os.Args[0]})
	if err != nil {
		return err
	}
	r.agent = a
	go func() {
		<-a.ready
		e := r.custom("ex")
		e.Command = argv("/bin/sh", "sh", "-c", "trap 'sleep 0.3; touch stopped; exit' TERM; echo ready > ready; while :; do sleep 1000 & wait; done")
		e.Command.Arguments = e.Command.Arguments[1:]
		r.run(e, newTask("t1", ""))
		for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
			if _, err := os.Stat(filepath.Join(r.sandbox("ex"), "ready")); err == nil {
				os.Stdout.WriteString("ready\n")
				return
			}
		}
	}()
	return a.Run(context.Background())
}
