package agent

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/minimesos/resource"
	"mesos-gpu/internal/testing/testneeds"
)

// fakeMaster records an agent's calls.
type fakeMaster struct {
	mu       sync.Mutex
	changed  chan struct{}
	agent    link.AgentLink
	info     mesos.AgentInfo
	running  []link.RunningExecutor // of the last registration
	totals   [][]mesos.Resource
	statuses []mesos.TaskStatus
	exits    []exited
	lost     bool
	// mute disables acknowledgements.
	mute bool
}

type exited struct {
	executor string
	status   int32
	// after is the number of statuses received before it.
	after int
}

func newFakeMaster() *fakeMaster { return &fakeMaster{changed: make(chan struct{}, 1)} }

func (m *fakeMaster) locked(f func()) {
	m.mu.Lock()
	f()
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

func (m *fakeMaster) Register(info mesos.AgentInfo, total []mesos.Resource, running []link.RunningExecutor, a link.AgentLink) (mesos.AgentID, error) {
	m.locked(func() { m.info, m.running, m.agent, m.totals = info, running, a, append(m.totals, total) })
	return mesos.AgentID{Value: "agent-1"}, nil
}

func (m *fakeMaster) UpdateTotal(_ mesos.AgentID, total []mesos.Resource) {
	m.locked(func() { m.totals = append(m.totals, total) })
}

func (m *fakeMaster) Status(_ mesos.AgentID, f mesos.FrameworkID, s mesos.TaskStatus) {
	m.locked(func() {
		m.statuses = append(m.statuses, s)
		if !m.mute {
			m.agent.Acknowledge(f, s.TaskID, s.UUID)
		}
	})
}

func (m *fakeMaster) ExecutorExited(_ mesos.AgentID, _ mesos.FrameworkID, e mesos.ExecutorID, status int32) {
	m.locked(func() { m.exits = append(m.exits, exited{e.Value, status, len(m.statuses)}) })
}

func (m *fakeMaster) Lost(mesos.AgentID) { m.locked(func() { m.lost = true }) }

// patience is the timeout of every wait. A test that reaches it fails.
const patience = 2 * time.Minute

// await waits until a condition on the recorded calls holds.
func (m *fakeMaster) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		m.mu.Lock()
		ok := done()
		m.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-m.changed:
		case <-deadline:
			m.mu.Lock()
			defer m.mu.Unlock()
			t.Fatalf("waited %s for %s; statuses %v, exits %v", patience, what, m.statuses, m.exits)
		}
	}
}

// states returns a task's states in order of arrival.
func (m *fakeMaster) states(task string) string {
	var all []string
	for _, s := range m.statuses {
		if s.TaskID.Value == task {
			all = append(all, strings.TrimPrefix(s.GetState().String(), "TASK_"))
		}
	}
	return strings.Join(all, " ")
}

func (m *fakeMaster) last(task string) mesos.TaskStatus {
	var last mesos.TaskStatus
	for _, s := range m.statuses {
		if s.TaskID.Value == task {
			last = s
		}
	}
	return last
}

// awaitStates waits until a task has had these states. It returns the last
// status.
func (m *fakeMaster) awaitStates(t *testing.T, task, states string) mesos.TaskStatus {
	t.Helper()
	m.await(t, task+" to be "+states, func() bool { return m.states(task) == states })
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last(task)
}

func (m *fakeMaster) awaitExit(t *testing.T, executor string) exited {
	t.Helper()
	var found exited
	m.await(t, executor+" to exit", func() bool {
		for _, x := range m.exits {
			if x.executor == executor {
				found = x
				return true
			}
		}
		return false
	})
	return found
}

// rig is a running agent that serves HTTP.
type rig struct {
	t      *testing.T
	agent  *EmbeddedAgent
	master *fakeMaster
	server *httptest.Server
	stop   func() error
}

func testLog() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// kinds runs a test with plain processes and, as root, with isolated ones.
func kinds(t *testing.T, test func(t *testing.T, root bool)) {
	t.Run("plain", func(t *testing.T) { test(t, false) })
	t.Run("root", func(t *testing.T) {
		testneeds.RequireDevicesCgroup(t)
		test(t, true)
	})
}

func newRig(t *testing.T, root bool, change func(*AgentConfig)) *rig {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, master: newFakeMaster(), server: httptest.NewUnstartedServer(nil)}
	cfg := AgentConfig{
		Log: testLog(), Master: r.master, WorkDir: t.TempDir(), Addr: r.server.Listener.Addr().String(),
		Resources: []mesos.Resource{resource.NewScalar("cpus", 4), resource.NewScalar("mem", 4096)}, Root: root, ExecutorPath: program,
		ExecutorEnv: map[string]string{"OPERATORS": "choice"}, shutdownGrace: 2 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	if r.agent, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	r.server.Config.Handler = r.agent.Handler()
	r.server.Start()
	t.Cleanup(r.server.Close)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.agent.Run(ctx) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		r.wantNothingLeft()
	})
	r.master.await(t, "registration", func() bool { return r.master.agent != nil })
	<-r.agent.ready
	return r
}

// wantNothingLeft checks that a stopped agent has left no cgroup, process or
// file of a container.
func (r *rig) wantNothingLeft() {
	r.t.Helper()
	cgroups, err := filepath.Glob("/sys/fs/cgroup/*" + Cgroup(r.agent.cfg.WorkDir))
	if err != nil || len(cgroups) > 0 {
		r.t.Errorf("cgroups left: %v %v", cgroups, err)
	}
	if runs, _ := filepath.Glob(filepath.Join(r.agent.cfg.WorkDir, runFolder, "*")); len(runs) > 0 {
		r.t.Errorf("containers' files left: %v", runs)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), r.agent.cfg.WorkDir) {
		r.t.Errorf("mounts left in\n%s %v", mounts, err)
	}
	for pid, cwd := range workingDirs() {
		if strings.HasPrefix(cwd, r.agent.cfg.WorkDir) {
			r.t.Errorf("process %s is left in %s", pid, cwd)
		}
	}
}

func workingDirs() map[string]string {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	dirs := map[string]string{}
	for _, link := range links {
		if cwd, err := os.Readlink(link); err == nil {
			dirs[filepath.Base(filepath.Dir(link))] = cwd
		}
	}
	return dirs
}

func aFramework(capabilities ...mesos.FrameworkInfo_Capability_Type) mesos.FrameworkInfo {
	f := mesos.FrameworkInfo{ID: &mesos.FrameworkID{Value: "fw"}, Name: "tests"}
	for _, c := range capabilities {
		f.Capabilities = append(f.Capabilities, mesos.FrameworkInfo_Capability{Type: c})
	}
	return f
}

// custom returns the foreign executor with environment variables.
func (r *rig) custom(id string, variables ...string) mesos.ExecutorInfo {
	shell := false
	command := &mesos.CommandInfo{Shell: &shell, Value: &r.agent.cfg.ExecutorPath, Arguments: []string{"foreign", "foreign-executor"}}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		if command.Environment == nil {
			command.Environment = &mesos.Environment{}
		}
		command.Environment.Variables = append(command.Environment.Variables, mesos.Environment_Variable{Name: name, Value: &value})
	}
	return mesos.ExecutorInfo{
		Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: id}, Command: command,
		Resources: []mesos.Resource{resource.NewScalar("cpus", 0.1), resource.NewScalar("mem", 512)},
	}
}

func newTask(id, data string, resources ...mesos.Resource) mesos.TaskInfo {
	return mesos.TaskInfo{Name: id, TaskID: mesos.TaskID{Value: id}, AgentID: mesos.AgentID{Value: "agent-1"}, Data: []byte(data), Resources: resources}
}

func (r *rig) run(e mesos.ExecutorInfo, tasks ...mesos.TaskInfo) {
	for _, t := range tasks {
		r.master.agent.Run(aFramework(), e, t)
	}
}

func (r *rig) kill(task string) {
	r.master.agent.Kill(mesos.FrameworkID{Value: "fw"}, mesos.TaskID{Value: task}, nil)
}

// sandbox returns the sandbox of an executor's latest run.
func (r *rig) sandbox(executor string) string {
	return filepath.Join(r.agent.cfg.WorkDir, "slaves", "agent-1", "frameworks", "fw", "executors", executor, "runs", "latest")
}

func (r *rig) file(executor, name string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.sandbox(executor), name))
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(text)
}
