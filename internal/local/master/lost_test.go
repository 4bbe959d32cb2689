package master

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/minimesos/resource"
)

func (c *masterClient) reconcile(t *testing.T, tasks ...scheduler.Call_Reconcile_Task) {
	t.Helper()
	c.post(t, http.StatusAccepted, &scheduler.Call{Type: scheduler.Call_RECONCILE, Reconcile: &scheduler.Call_Reconcile{Tasks: tasks}})
}

func asked(task, agent string) scheduler.Call_Reconcile_Task {
	out := scheduler.Call_Reconcile_Task{TaskID: mesos.TaskID{Value: task}}
	if agent != "" {
		out.AgentID = &mesos.AgentID{Value: agent}
	}
	return out
}

// isByMaster reports whether the master itself generated a status.
func isByMaster(s mesos.TaskStatus, state mesos.TaskState, reason mesos.TaskStatus_Reason) bool {
	return s.GetState() == state && s.GetReason() == reason && s.GetSource() == mesos.SOURCE_MASTER && s.UUID == nil
}

func TestLostAgentReturns(t *testing.T) {
	for _, tc := range []struct {
		name        string
		info        *mesos.FrameworkInfo
		unreachable mesos.TaskState
		gone        mesos.TaskState
	}{
		{"partition aware", info(mesos.FrameworkInfo_Capability_PARTITION_AWARE), mesos.TASK_UNREACHABLE, mesos.TASK_GONE},
		{"not partition aware", info(), mesos.TASK_LOST, mesos.TASK_LOST},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := New(MasterConfig{})
			c := subscribe(t, m, tc.info)
			a := register(t, m, gpuAgent)
			offers := c.offers(t)
			stays := custom(taskInfo("stays", a.id, "cpus:1;gpus:1;gpu_ids:{A}"), "e", "cpus:0.5")
			c.accept(t, 0, offers, launch(stays, taskInfo("goes", a.id, "cpus:1")))
			first := a.nextRun(t)
			a.status(m, c.id, "stays", mesos.TASK_RUNNING)
			m.withLock(m.allocateAll)
			c.offers(t)

			m.Lost(a.id)
			for _, id := range []string{"goes", "stays"} {
				got := c.update(t, id)
				for got.GetSource() != mesos.SOURCE_MASTER {
					got = c.update(t, id)
				}
				if got.GetState() != tc.unreachable || got.GetReason() != mesos.REASON_AGENT_REMOVED || got.UnreachableTime == nil {
					t.Errorf("%s: got %v, want %v", id, got, tc.unreachable)
				}
			}
			c.event(t, scheduler.Event_RESCIND)
			if got := c.event(t, scheduler.Event_FAILURE).Failure; *got.AgentID != a.id || got.ExecutorID != nil {
				t.Errorf("got %v", got)
			}
			c.reconcile(t, asked("stays", a.id.Value))
			if got := c.update(t, "stays"); got.GetState() != tc.unreachable || got.GetReason() != mesos.REASON_RECONCILIATION {
				t.Errorf("reconciliation: got %v", got)
			}

			back := a.again(t, m, gpuAgent, link.RunningExecutor{Framework: first.framework, Executor: first.executor, Tasks: []mesos.TaskInfo{first.task}})
			if got := c.update(t, "stays"); !isByMaster(got, mesos.TASK_RUNNING, mesos.REASON_AGENT_REREGISTERED) {
				t.Errorf("came back: got %v", got)
			}
			if got := c.offers(t)[0].Resources; !near(scalar(got, "cpus"), 2.5) || scalar(got, "gpus") != 1 {
				t.Errorf("offered while tasks run: %v", mesos.Resources(got))
			}
			// Nothing reports a task that the agent does not list: the framework has to ask.
			c.kill(t, "goes", a.id)
			if got := c.update(t, "goes"); !isByMaster(got, tc.gone, mesos.REASON_RECONCILIATION) {
				t.Errorf("did not come back: got %v, want %v", got, tc.gone)
			}
			uuid := back.status(m, c.id, "stays", mesos.TASK_FINISHED)
			c.update(t, "stays")
			c.acknowledge(t, back, "stays", uuid)
			back.wants(t, "acknowledge stays 16")
			c.reconcile(t)
			c.quiet(t, scheduler.Event_UPDATE) // nothing is left
		})
	}
}

func scalar(rs []mesos.Resource, name string) float64 { return resource.SumScalar(rs, name) }

func TestReconcile(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info(mesos.FrameworkInfo_Capability_PARTITION_AWARE))
	a := register(t, m, cpuAgent)
	gone := register(t, m, "cpus:1;mem:1")
	m.Lost(gone.id)
	c.accept(t, 0, c.offers(t), launch(taskInfo("t", a.id, "cpus:1"), taskInfo("u", a.id, "cpus:1")))
	a.status(m, c.id, "t", mesos.TASK_RUNNING)
	c.update(t, "t")
	for _, tc := range []struct {
		asked scheduler.Call_Reconcile_Task
		want  mesos.TaskState
	}{
		{asked("t", a.id.Value), mesos.TASK_RUNNING},
		{asked("u", ""), mesos.TASK_STAGING},
		{asked("x", a.id.Value), mesos.TASK_GONE},
		{asked("x", gone.id.Value), mesos.TASK_UNREACHABLE},
		{asked("x", "unknown"), mesos.TASK_UNKNOWN},
		{asked("x", ""), mesos.TASK_UNKNOWN},
	} {
		c.reconcile(t, tc.asked)
		got := c.update(t, tc.asked.TaskID.Value)
		if got.GetState() != tc.want || got.GetReason() != mesos.REASON_RECONCILIATION || got.UUID != nil {
			t.Errorf("%v: got %v, want %v", tc.asked, got, tc.want)
		}
	}
	c.reconcile(t)
	if one, two := c.update(t, "t"), c.update(t, "u"); one.GetState() != mesos.TASK_RUNNING || two.GetState() != mesos.TASK_STAGING {
		t.Errorf("implicit: got %v and %v", one, two)
	}
}

// A new master learns frameworks and tasks from agents.
func TestNewMasterLearnsFromAgents(t *testing.T) {
	m := New(MasterConfig{})
	framework := info()
	framework.ID = &mesos.FrameworkID{Value: "earlier-0007"}
	a := &registeringAgent{id: mesos.AgentID{Value: "earlier-S0"}}
	running := taskInfo("t", a.id, "cpus:1")
	running.Resources[0].Allocate("*")
	a = a.again(t, m, cpuAgent, link.RunningExecutor{
		Framework: *framework, Tasks: []mesos.TaskInfo{running},
		Executor: mesos.ExecutorInfo{ExecutorID: mesos.ExecutorID{Value: "t"}},
	})
	c := subscribe(t, m, framework)
	if *c.id != *framework.ID {
		t.Fatalf("got id %v, want its own", c.id)
	}
	if got := scalar(c.offers(t)[0].Resources, "cpus"); got != 3 {
		t.Errorf("offered %v cpus next to the running task, want 3", got)
	}
	c.reconcile(t)
	if got := c.update(t, "t"); got.GetState() != mesos.TASK_RUNNING {
		t.Errorf("got %v", got)
	}
	c.call(t, scheduler.Call_TEARDOWN)
	a.wants(t, "shutdown framework")
	a = a.again(t, m, cpuAgent, link.RunningExecutor{Framework: *framework})
	a.wants(t, "shutdown framework") // removed frameworks do not come back
}

// The master asks an agent that registers again about the tasks that it does not
// list, and no longer charges the executors that it does not list. Kills are
// repeated for tasks that it lists.
func TestReregistrationOfARegisteredAgent(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info(mesos.FrameworkInfo_Capability_PARTITION_AWARE))
	a := register(t, m, cpuAgent)
	lost := custom(taskInfo("lost", a.id, "cpus:1"), "lost", "cpus:0.5")
	c.accept(t, 0, c.offers(t), launch(lost, custom(taskInfo("killed", a.id, "cpus:1"), "killed", "cpus:0.5")))
	a.nextRun(t)
	killed := a.nextRun(t)
	c.kill(t, "killed", a.id)
	a.wants(t, "kill killed grace 0")
	a = a.again(t, m, cpuAgent, link.RunningExecutor{Framework: killed.framework, Executor: killed.executor, Tasks: []mesos.TaskInfo{killed.task}})
	a.wants(t, "reconcile lost")
	a.wants(t, "kill killed grace 0")
	if got := scalar(c.offers(t)[0].Resources, "cpus"); got != 1.5 {
		t.Errorf("offered %v cpus, want 4 without both tasks and an executor", got)
	}
	// The executor that the master has removed runs, and exits.
	m.ExecutorExited(a.id, *c.id, mesos.ExecutorID{Value: "lost"}, 0)
	c.quiet(t, scheduler.Event_FAILURE)
	c.quiet(t, scheduler.Event_UPDATE)
	a.status(m, c.id, "lost", mesos.TASK_DROPPED)
	if got := c.update(t, "lost"); got.GetState() != mesos.TASK_DROPPED || got.UUID == nil {
		t.Errorf("got %v, want the agent's status", got)
	}
	m.withLock(m.allocateAll)
	if got := scalar(c.offers(t)[0].Resources, "cpus"); got != 1 {
		t.Errorf("offered %v more cpus, want those of the task", got)
	}
	m.Status(mesos.AgentID{Value: "unknown"}, *c.id, mesos.TaskStatus{TaskID: mesos.TaskID{Value: "t"}, State: mesos.TASK_RUNNING.Enum()})
	c.quiet(t, scheduler.Event_UPDATE)
}

// A launch that is on its way while its agent is lost and registers again runs,
// although the master offers its resources. The framework receives its statuses,
// its KILL is answered by the master, and only SHUTDOWN reaches it.
func TestLateLaunchRunsUnknownToMaster(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info(mesos.FrameworkInfo_Capability_PARTITION_AWARE))
	a := register(t, m, gpuAgent)
	a.runs = make(chan run) // Run blocks until the test reads it
	c.accept(t, 0, c.offers(t), launch(custom(taskInfo("late", a.id, "cpus:1;gpus:1;gpu_ids:{A}"), "late", "cpus:0.5")))
	m.Lost(a.id)
	if got := c.update(t, "late"); got.GetState() != mesos.TASK_UNREACHABLE {
		t.Errorf("got %v", got)
	}
	a.rejoin(t, m, gpuAgent)
	if got := resource.Unallocate(c.offers(t)[0].Resources); !resource.Equal(got, res(gpuAgent)) {
		t.Errorf("offered %v, want everything", mesos.Resources(got))
	}
	c.kill(t, "late", a.id)
	if got := c.update(t, "late"); !isByMaster(got, mesos.TASK_GONE, mesos.REASON_RECONCILIATION) {
		t.Errorf("got %v", got)
	}
	c.shutdown(t, "late", a.id)
	late := a.nextRun(t) // before the SHUTDOWN, which was sent later
	a.wants(t, "shutdown executor late")
	running := a.status(m, c.id, "late", mesos.TASK_RUNNING)
	if got := c.update(t, "late"); got.GetState() != mesos.TASK_RUNNING || got.GetSource() != mesos.SOURCE_EXECUTOR {
		t.Errorf("got %v", got)
	}
	c.acknowledge(t, a, "late", running)
	a.wants(t, "acknowledge late 16")
	// The agent lists it when it registers again, and it remains unknown.
	a.rejoin(t, m, gpuAgent, link.RunningExecutor{Framework: late.framework, Executor: late.executor, Tasks: []mesos.TaskInfo{late.task}})
	if got := resource.Unallocate(c.offers(t)[0].Resources); !resource.Equal(got, res(gpuAgent)) {
		t.Errorf("offered %v, want everything", mesos.Resources(got))
	}
	c.kill(t, "late", a.id)
	if got := c.update(t, "late"); got.GetState() != mesos.TASK_GONE {
		t.Errorf("got %v", got)
	}
	// Once the agent was lost, the master adopts it.
	m.Lost(a.id)
	a.rejoin(t, m, gpuAgent, link.RunningExecutor{Framework: late.framework, Executor: late.executor, Tasks: []mesos.TaskInfo{late.task}})
	if got := c.update(t, "late"); got.GetState() != mesos.TASK_RUNNING || got.GetReason() != mesos.REASON_AGENT_REREGISTERED {
		t.Errorf("got %v", got)
	}
	c.kill(t, "late", a.id)
	a.wants(t, "kill late grace 0")
}

// An agent that has ended tasks lists their terminal states until they are
// acknowledged.
func TestReturningAgentListsEndedTasks(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info(mesos.FrameworkInfo_Capability_PARTITION_AWARE))
	a := register(t, m, cpuAgent)
	c.accept(t, 0, c.offers(t), launch(custom(taskInfo("ends", a.id, "cpus:1"), "ends", "cpus:0.5")))
	ends := a.nextRun(t)
	m.Lost(a.id)
	c.update(t, "ends")
	a.rejoin(t, m, cpuAgent, link.RunningExecutor{
		Framework: ends.framework, Executor: ends.executor, Ended: true,
		Tasks: []mesos.TaskInfo{ends.task}, States: map[string]mesos.TaskState{"ends": mesos.TASK_FINISHED},
	})
	if got := c.update(t, "ends"); got.GetState() != mesos.TASK_FINISHED || got.GetSource() != mesos.SOURCE_MASTER || got.UUID != nil {
		t.Errorf("got %v", got)
	}
	if got := scalar(c.offers(t)[0].Resources, "cpus"); got != 4 {
		t.Errorf("offered %v cpus, want all", got)
	}
	uuid := a.status(m, c.id, "ends", mesos.TASK_FINISHED)
	c.update(t, "ends")
	c.acknowledge(t, a, "ends", uuid)
	a.wants(t, "acknowledge ends 16")
	c.reconcile(t)
	c.quiet(t, scheduler.Event_UPDATE)
}

// An agent without its work directory registers under a new id. The master
// removes the earlier one, whose containers may run, and its tasks.
func TestAgentRegistersUnderNewID(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info(mesos.FrameworkInfo_Capability_PARTITION_AWARE))
	a, other := newAgent(), register(t, m, cpuAgent)
	c.offers(t)
	address := agentInfo()
	id, err := m.Register(address, res(cpuAgent), nil, a)
	if err != nil {
		t.Fatal(err)
	}
	c.accept(t, 0, c.offers(t), launch(taskInfo("t", id, "cpus:1")))
	a.nextRun(t)
	next, err := m.Register(address, res(cpuAgent), nil, newAgent())
	if err != nil || next == id {
		t.Fatalf("got id %v, %v", next, err)
	}
	if got := c.update(t, "t"); !isByMaster(got, mesos.TASK_LOST, mesos.REASON_AGENT_REMOVED) || *got.AgentID != id {
		t.Errorf("got %v", got)
	}
	if got := c.event(t, scheduler.Event_FAILURE).Failure; *got.AgentID != id {
		t.Errorf("got %v", got)
	}
	if offer := c.offers(t)[0]; offer.AgentID != next || scalar(offer.Resources, "cpus") != 4 {
		t.Errorf("got %v", offer)
	}
	a.status(m, c.id, "t", mesos.TASK_RUNNING) // of the removed agent
	c.quiet(t, scheduler.Event_UPDATE)
	c.reconcile(t, asked("t", id.Value))
	if got := c.update(t, "t"); got.GetState() != mesos.TASK_UNKNOWN {
		t.Errorf("got %v", got)
	}
	if m.agents[other.id.Value] == nil || len(m.agents) != 2 {
		t.Errorf("registered: %v", slices.Collect(maps.Keys(m.agents)))
	}
}

func TestStaleStatusDoesNotChangeState(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info())
	a := register(t, m, cpuAgent)
	c.accept(t, 0, c.offers(t), launch(taskInfo("t", a.id, "cpus:1")))
	status := func(state mesos.TaskState, at float64) {
		m.Status(a.id, *c.id, mesos.TaskStatus{TaskID: mesos.TaskID{Value: "t"}, State: state.Enum(), Timestamp: &at, UUID: make([]byte, 16)})
	}
	for _, tc := range []struct {
		state mesos.TaskState
		at    float64
		want  mesos.TaskState
	}{
		{mesos.TASK_STARTING, 1, mesos.TASK_STARTING},
		{mesos.TASK_RUNNING, 2, mesos.TASK_RUNNING},
		{mesos.TASK_STARTING, 1, mesos.TASK_RUNNING},
		{mesos.TASK_FAILED, 1, mesos.TASK_FAILED},
		{mesos.TASK_RUNNING, 4, mesos.TASK_FAILED},
	} {
		status(tc.state, tc.at)
		if got := c.update(t, "t"); got.GetState() != tc.state {
			t.Errorf("forwarded %v, want %v", got.GetState(), tc.state)
		}
		if got := m.frameworks[c.id.Value].tasks["t"].GetState(); got != tc.want {
			t.Errorf("after %v: state %v, want %v", tc.state, got, tc.want)
		}
	}
}
