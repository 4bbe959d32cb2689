package master

import (
	"net/http"
	"slices"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/minimesos/resource"
)

func TestTaskFromOfferToAcknowledgement(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info())
	a := register(t, m, gpuAgent)
	offers := c.offers(t)
	task := custom(taskInfo("t1", a.id, "cpus:1;gpus:1;gpu_ids:{A}"), "t1", "cpus:0.1;mem:32")
	c.accept(t, 0, offers, launch(task))

	r := a.nextRun(t)
	if r.executor.ExecutorID.Value != "t1" || *r.executor.FrameworkID != *c.id {
		t.Errorf("agent was told to run %v", r)
	}
	for _, got := range r.task.Resources {
		if got.GetAllocationInfo().GetRole() != "*" {
			t.Errorf("task's resource is not allocated to the offer's role: %v", got)
		}
	}
	m.withLock(m.allocateAll)
	left := c.offers(t)[0]
	want := res("cpus:2.9;mem:4064;disk:10000;gpus:1;gpu_ids:{B}")
	if got := resource.Unallocate(left.Resources); !resource.Equal(got, want) {
		t.Errorf("left over: got %v, want %v", mesos.Resources(got), mesos.Resources(want))
	}

	running := a.status(m, c.id, "t1", mesos.TASK_RUNNING)
	if got := c.update(t, "t1"); got.GetState() != mesos.TASK_RUNNING || *got.AgentID != a.id || string(got.Data) != "data" {
		t.Errorf("got %v", got)
	}
	c.acknowledge(t, a, "t1", running)
	a.wants(t, "acknowledge t1 16")

	finished := a.status(m, c.id, "t1", mesos.TASK_FINISHED)
	c.update(t, "t1")
	c.decline(t, 0, []mesos.Offer{left})
	m.withLock(m.allocateAll)
	left = c.offers(t)[0]
	if got, want := resource.Unallocate(left.Resources), res("cpus:3.9;mem:4064;disk:10000;gpus:2;gpu_ids:{A,B}"); !resource.Equal(got, want) {
		t.Errorf("after the task, before its executor's exit: got %v, want %v", mesos.Resources(got), mesos.Resources(want))
	}
	m.ExecutorExited(a.id, *c.id, mesos.ExecutorID{Value: "t1"}, 0)
	if got := c.event(t, scheduler.Event_FAILURE).Failure; got.ExecutorID.Value != "t1" || got.GetStatus() != 0 || *got.AgentID != a.id {
		t.Errorf("got %v", got)
	}
	m.withLock(m.allocateAll)
	if got := resource.SumScalar(c.offers(t)[0].Resources, "cpus"); !near(got, 0.1) {
		t.Errorf("executor's cpus: got %v, want 0.1", got)
	}
	c.acknowledge(t, a, "t1", finished)
	a.wants(t, "acknowledge t1 16")
	if f := m.frameworks[c.id.Value]; len(f.tasks) != 0 || len(f.completed) != 1 {
		t.Errorf("got %d tasks and %d completed, want 0 and 1", len(f.tasks), len(f.completed))
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

func (c *masterClient) acknowledge(t *testing.T, a *registeringAgent, task string, uuid []byte) {
	t.Helper()
	c.post(t, http.StatusAccepted, &scheduler.Call{Type: scheduler.Call_ACKNOWLEDGE, Acknowledge: &scheduler.Call_Acknowledge{
		AgentID: a.id, TaskID: mesos.TaskID{Value: task}, UUID: uuid,
	}})
}

func TestExecutorIsChargedOnce(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info())
	a := register(t, m, cpuAgent)
	one := custom(taskInfo("t1", a.id, "cpus:1"), "shared", "cpus:1;mem:32")
	two := custom(taskInfo("t2", a.id, "cpus:1"), "shared", "cpus:1;mem:32")
	other := custom(taskInfo("t3", a.id, "cpus:0.5"), "shared", "cpus:0.5;mem:32")
	c.accept(t, 0, c.offers(t), launch(one, two, other))
	a.nextRun(t)
	a.nextRun(t)
	got := c.update(t, "t3")
	if got.GetState() != mesos.TASK_ERROR || got.GetReason() != mesos.REASON_TASK_INVALID {
		t.Errorf("executor with same id but other resources: got %v", got)
	}
	m.withLock(m.allocateAll)
	if got := resource.SumScalar(c.offers(t)[0].Resources, "cpus"); got != 1 {
		t.Errorf("got %v cpus left, want 4 - 1 - 1 - 1", got)
	}
	// t2 was on its way when the executor exited. The agent restarts the executor
	// for it, so both stay charged.
	a.status(m, c.id, "t1", mesos.TASK_FAILED)
	m.ExecutorExited(a.id, *c.id, mesos.ExecutorID{Value: "shared"}, 9)
	m.withLock(m.allocateAll)
	if got := resource.SumScalar(c.offers(t)[0].Resources, "cpus"); got != 1 {
		t.Errorf("got %v cpus back, want t1's 1", got)
	}
	a.status(m, c.id, "t2", mesos.TASK_FAILED)
	m.ExecutorExited(a.id, *c.id, mesos.ExecutorID{Value: "shared"}, 9)
	m.withLock(m.allocateAll)
	if got := resource.SumScalar(c.offers(t)[0].Resources, "cpus"); got != 2 {
		t.Errorf("got %v cpus back, want the executor's and t2's, 2", got)
	}
}

func TestInvalidOffers(t *testing.T) {
	for _, tc := range []struct {
		name string
		info *mesos.FrameworkInfo
		want mesos.TaskState
	}{
		{"partition aware", info(mesos.FrameworkInfo_Capability_PARTITION_AWARE), mesos.TASK_DROPPED},
		{"not partition aware", info(), mesos.TASK_LOST},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := New(MasterConfig{})
			c := subscribe(t, m, tc.info)
			a := register(t, m, cpuAgent)
			one := c.offers(t)
			register(t, m, cpuAgent)
			two := c.offers(t)
			rejected := func(id string, offers []mesos.Offer) {
				t.Helper()
				c.accept(t, 0, offers, launch(taskInfo(id, a.id, "cpus:1")))
				got := c.update(t, id)
				if got.GetState() != tc.want || got.GetReason() != mesos.REASON_INVALID_OFFERS || got.GetSource() != mesos.SOURCE_MASTER || got.UUID != nil {
					t.Errorf("%s: got %v", id, got)
				}
			}
			rejected("none", nil)
			rejected("twice", []mesos.Offer{one[0], one[0]})
			m.withLock(m.allocateAll)
			rejected("two agents", slices.Concat(c.offers(t), two))
			rejected("used", one)
			if len(a.runs) > 0 {
				t.Error("a task was launched")
			}
		})
	}
}

func TestOffersOfOneAgentAreAggregated(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info())
	a := register(t, m, "cpus:1;mem:64")
	one := c.offers(t)
	// Resources that are added while the first offer is outstanding are in a
	// second offer.
	m.mu.Lock()
	m.agents[a.id.Value].total = res("cpus:3;mem:64")
	m.allocateAll()
	m.mu.Unlock()
	two := c.offers(t)
	c.accept(t, 0, slices.Concat(one, two), launch(taskInfo("t", a.id, "cpus:3")))
	if r := a.nextRun(t); r.executor.Command != nil || r.executor.Type != mesos.ExecutorInfo_UNKNOWN {
		t.Errorf("got %v, want one task whose executor the agent supplies", r)
	}
}

func TestUnsupportedOperations(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info())
	a := register(t, m, cpuAgent)
	reserve := mesos.Offer_Operation{
		Type: mesos.Offer_Operation_RESERVE, ID: &mesos.OperationID{Value: "op"}, Reserve: &mesos.Offer_Operation_Reserve{Resources: res("cpus:1")},
	}
	c.accept(t, 0, c.offers(t), reserve, launch(taskInfo("t", a.id, "cpus:1")))
	a.nextRun(t) // the other operations go on
	c.post(t, http.StatusNotImplemented, &scheduler.Call{Type: scheduler.Call_RECONCILE_OPERATIONS})
}

func TestCallsToAgents(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info())
	a := register(t, m, cpuAgent)
	c.accept(t, 0, c.offers(t), launch(custom(taskInfo("t", a.id, "cpus:1"), "e", "cpus:1")))
	a.nextRun(t)
	policy := &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: 5}}
	c.post(t, http.StatusAccepted, &scheduler.Call{Type: scheduler.Call_KILL, Kill: &scheduler.Call_Kill{
		TaskID: mesos.TaskID{Value: "t"}, AgentID: &mesos.AgentID{Value: "other"},
	}})
	c.post(t, http.StatusAccepted, &scheduler.Call{Type: scheduler.Call_KILL, Kill: &scheduler.Call_Kill{
		TaskID: mesos.TaskID{Value: "t"}, KillPolicy: policy,
	}})
	a.wants(t, "kill t grace 5")
	c.post(t, http.StatusAccepted, &scheduler.Call{Type: scheduler.Call_REQUEST, Request: &scheduler.Call_Request{}})
	// The agent may have executors that the master does not know.
	for _, id := range []string{"unknown", "e"} {
		c.shutdown(t, id, a.id)
		a.wants(t, "shutdown executor "+id)
		c.message(t, id, a.id)
		a.wants(t, "message "+id+" text")
	}
	c.shutdown(t, "e", mesos.AgentID{Value: "unknown"})
	c.message(t, "e", mesos.AgentID{Value: "unknown"})
	c.post(t, http.StatusAccepted, &scheduler.Call{Type: scheduler.Call_KILL, Kill: &scheduler.Call_Kill{TaskID: mesos.TaskID{Value: "unknown"}}})
	if got := c.update(t, "unknown"); got.GetState() != mesos.TASK_LOST || got.GetReason() != mesos.REASON_RECONCILIATION {
		t.Errorf("kill of an unknown task: got %v", got)
	}
}

func (c *masterClient) kill(t *testing.T, task string, agent mesos.AgentID) {
	t.Helper()
	c.post(t, http.StatusAccepted, &scheduler.Call{
		Type: scheduler.Call_KILL, Kill: &scheduler.Call_Kill{TaskID: mesos.TaskID{Value: task}, AgentID: &agent},
	})
}

func (c *masterClient) shutdown(t *testing.T, executor string, agent mesos.AgentID) {
	t.Helper()
	c.post(t, http.StatusAccepted, &scheduler.Call{
		Type: scheduler.Call_SHUTDOWN, Shutdown: &scheduler.Call_Shutdown{AgentID: agent, ExecutorID: mesos.ExecutorID{Value: executor}},
	})
}

func (c *masterClient) message(t *testing.T, executor string, agent mesos.AgentID) {
	t.Helper()
	c.post(t, http.StatusAccepted, &scheduler.Call{
		Type: scheduler.Call_MESSAGE, Message: &scheduler.Call_Message{AgentID: agent, ExecutorID: mesos.ExecutorID{Value: executor}, Data: []byte("text")},
	})
}
