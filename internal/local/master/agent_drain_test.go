package master

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gogo/protobuf/proto"
	"github.com/gogo/protobuf/types"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/local/link"
)

// operate makes a call of the operator API and checks the response's status.
func operate(t *testing.T, m *EmbeddedMaster, want int, call *operator.Call) *operator.Response {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, request(call, "/api/v1", ""))
	response := &operator.Response{}
	err := proto.Unmarshal(w.Body.Bytes(), response)
	if w.Code != want || err != nil && want == http.StatusOK {
		t.Fatalf("%s: got %d %s %v, want %d", call.Type, w.Code, w.Body, err, want)
	}
	return response
}

func drain(id mesos.AgentID, seconds int64, gone bool) *operator.Call {
	return &operator.Call{Type: operator.Call_DRAIN_AGENT, DrainAgent: &operator.Call_DrainAgent{
		AgentID: id, MaxGracePeriod: &types.Duration{Seconds: seconds}, MarkGone: &gone,
	}}
}

// onAgent launches a task on an agent and reports it as RUNNING.
func onAgent(t *testing.T, m *EmbeddedMaster, c *masterClient, a *registeringAgent, id string) {
	t.Helper()
	task := custom(taskInfo(id, a.id, "cpus:1"), "e-"+id, "cpus:0.5")
	task.KillPolicy = &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: 20e9}}
	c.accept(t, 0, c.offers(t), launch(task))
	a.nextRun(t)
	c.acknowledges(t, a, id, a.status(m, c.id, id, mesos.TASK_RUNNING))
}

// acknowledges also waits until the agent has received it.
func (c *masterClient) acknowledges(t *testing.T, a *registeringAgent, id string, uuid []byte) {
	t.Helper()
	c.acknowledge(t, a, id, uuid)
	a.wants(t, "acknowledge "+id+" 16")
}

func drainInfo(t *testing.T, m *EmbeddedMaster) *mesos.DrainInfo {
	t.Helper()
	return operate(t, m, http.StatusOK, &operator.Call{Type: operator.Call_GET_AGENTS}).GetAgents.Agents[0].DrainInfo
}

func TestDrain(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info(mesos.FrameworkInfo_Capability_PARTITION_AWARE))
	a := register(t, m, cpuAgent)
	onAgent(t, m, c, a, "t")
	m.withLock(m.allocateAll)
	c.offers(t)

	operate(t, m, http.StatusOK, drain(a.id, 3, false))
	c.event(t, scheduler.Event_RESCIND)
	a.wants(t, "kill t grace 3000000000") // less than the task's own 20 s
	if d := drainInfo(t, m); d.State != mesos.DrainState_DRAINING || d.Config.MaxGracePeriod.Nanoseconds != 3e9 {
		t.Errorf("drain_info %v", d)
	}
	uuid := a.status(m, c.id, "t", mesos.TASK_KILLED)
	if got := c.update(t, "t"); got.GetState() == mesos.TASK_RUNNING {
		got = c.update(t, "t")
		if got.GetState() != mesos.TASK_KILLED || got.GetReason() != mesos.REASON_AGENT_DRAINING {
			t.Errorf("the task ended as %v", got)
		}
	}
	m.ExecutorExited(a.id, *c.id, mesos.ExecutorID{Value: "e-t"}, 0)
	c.acknowledges(t, a, "t", uuid)
	if d := drainInfo(t, m); d.State != mesos.DrainState_DRAINED {
		t.Errorf("after the last task drain_info is %v", d)
	}
	m.withLock(m.allocateAll)
	c.quiet(t, scheduler.Event_OFFERS)
}

// An agent that is lost while it drains continues to drain after its return.
func TestDrainContinuesAfterAgentReturns(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info(mesos.FrameworkInfo_Capability_PARTITION_AWARE))
	a := register(t, m, cpuAgent)
	task := taskInfo("t", a.id, "cpus:1")
	c.accept(t, 0, c.offers(t), launch(task))
	r := a.nextRun(t)
	operate(t, m, http.StatusOK, drain(a.id, 3, false))
	a.wants(t, "kill t grace 3000000000")
	m.Lost(a.id)
	b := a.again(t, m, cpuAgent, link.RunningExecutor{Framework: r.framework, Executor: r.executor, Tasks: []mesos.TaskInfo{r.task}})
	b.wants(t, "kill t grace 3000000000")
	c.quiet(t, scheduler.Event_OFFERS)
}

func TestRefusedDrains(t *testing.T) {
	m := New(MasterConfig{})
	a := register(t, m, cpuAgent)
	operate(t, m, http.StatusNotImplemented, drain(a.id, 1, true))
	m.Lost(a.id)
	operate(t, m, http.StatusBadRequest, drain(a.id, 1, false))
}

func TestOperatorTeardown(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info())
	teardown := &operator.Call{Type: operator.Call_TEARDOWN, Teardown: &operator.Call_Teardown{FrameworkID: *c.id}}
	operate(t, m, http.StatusOK, teardown)
	<-c.ended
	operate(t, m, http.StatusBadRequest, teardown)
}
