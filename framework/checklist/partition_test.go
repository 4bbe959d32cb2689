package checklist

import (
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework"
	"mesos-gpu/internal/testing/faultproxy"
	"mesos-gpu/job"
)

func TestMesos34_UnreachableTasksMayReturn(t *testing.T) {
	w := newTestEnv(t, gpuAgent, plainAgent)
	in := w.startScheduler(nil)
	if info := w.awaitCall(1, scheduler.Call_SUBSCRIBE, nil).Subscribe.FrameworkInfo; !hasCapability(info, mesos.FrameworkInfo_Capability_PARTITION_AWARE) {
		t.Errorf("capabilities %v", info.Capabilities)
	}
	in.submit(w.newSpec("train", 1))
	id := in.awaitTask("train", job.Running).ID
	w.cluster.disconnect(gpuAgent)
	if got := in.awaitTask("train", job.Unreachable); got.ID != id || in.getJob("train").Terminal {
		t.Errorf("the unreachable task is %+v, was %s", got, id)
	}
	w.cluster.reconnect(gpuAgent)
	if got := in.awaitTask("train", job.Running).ID; got != id {
		t.Errorf("task %s came back as %s", id, got)
	}
	w.finishTasks("train")
	in.awaitTask("train", job.Finished)
	w.SetFilter(dropEvents(isReconciliation)) // the master does know the tasks that it reports as unknown
	for _, state := range []mesos.TaskState{mesos.TASK_GONE, mesos.TASK_LOST, mesos.TASK_UNKNOWN} {
		w.testUnknownToMaster(in, state)
	}
	w.SetFilter(nil)
	for _, state := range []mesos.TaskState{mesos.TASK_DROPPED, mesos.TASK_GONE_BY_OPERATOR} {
		w.testProvenEnd(in, state)
	}
}

// testUnknownToMaster sends a state that only says that the master does not know a running task. The scheduler asks the
// agent: the task continues if the agent has it, otherwise another attempt follows.
func (w *testEnv) testUnknownToMaster(in *testInstance, state mesos.TaskState) {
	w.t.Helper()
	name := state.String()
	in.submit(w.newSpec(name, 0))
	before := in.awaitTask(name, job.Running)
	w.awaitAcknowledged(before.ID, mesos.TASK_RUNNING) // a repeated RUNNING would also show that it runs
	asked := len(w.listCalls(scheduler.Call_RECONCILE, isReconcileOf(before.ID)))
	w.injectFromMaster(before, state)
	w.awaitCall(asked+1, scheduler.Call_RECONCILE, isReconcileOf(before.ID)) // the agent is asked at the same time
	w.awaitProcessed(in, name+"-settled")
	if got := in.getJob(name).Tasks[0]; got.ID != before.ID || got.State != job.Running {
		w.t.Errorf("after %s the task is %s, %s, but the agent runs %s", state, got.ID, got.State, before.ID)
	}
	if w.cluster.loseTasks(name) {
		w.injectFromMaster(before, state)
		w.awaitSecondAttempt(in, before, state)
	}
}

// testProvenEnd sends a state that proves the end of a running task. Another attempt follows.
func (w *testEnv) testProvenEnd(in *testInstance, state mesos.TaskState) {
	w.t.Helper()
	name := state.String()
	in.submit(w.newSpec(name, 0))
	before := in.awaitTask(name, job.Running)
	w.injectFromMaster(before, state)
	w.awaitSecondAttempt(in, before, state)
}

// injectFromMaster sends a state of a task with the master as its source.
func (w *testEnv) injectFromMaster(task job.Task, state mesos.TaskState) {
	w.InjectEvents(updateEvent(mesos.TaskStatus{
		TaskID: mesos.TaskID{Value: task.ID}, AgentID: &mesos.AgentID{Value: task.AgentID}, State: &state, Source: mesos.SOURCE_MASTER.Enum(),
	}))
}

// awaitSecondAttempt waits until the next attempt of a task runs.
func (w *testEnv) awaitSecondAttempt(in *testInstance, before job.Task, state mesos.TaskState) {
	w.t.Helper()
	again := in.awaitTaskCondition(before.Job, "running again", func(t job.Task) bool { return t.ID != before.ID && t.State == job.Running })
	if again.Attempt != 2 {
		w.t.Errorf("after %s comes attempt %d", state, again.Attempt)
	}
}

func TestMesos35_UnreachableTasksAreReplacedAfterTimeout(t *testing.T) {
	w := newTestEnv(t, gpuAgent, otherGPUs)
	in := w.startScheduler(func(c *framework.SchedulerConfig) { c.Sched.UnreachableTimeout = 10 * time.Minute })
	in.submit(w.newSpec("train", 1))
	before := in.awaitTask("train", job.Running)
	lost := gpuAgent
	if before.AgentID != w.agentID(gpuAgent).Value {
		lost = otherGPUs
	}
	w.cluster.disconnect(lost)
	in.awaitTask("train", job.Unreachable)
	in.advance(8 * time.Minute)
	w.awaitProcessed(in, "settled")
	if got := in.getJob("train").Tasks[0]; got.State != job.Unreachable || got.ID != before.ID {
		t.Errorf("the task was replaced too early: %s is %s", got.ID, got.State)
	}
	in.advance(3 * time.Minute)
	again := in.awaitTaskCondition("train", "running again", func(t job.Task) bool { return t.ID != before.ID && t.State == job.Running })
	if again.AgentID == before.AgentID {
		t.Errorf("the replacement runs on the same agent %s", again.AgentID)
	}
	// If the first task comes back, it is killed.
	w.cluster.reconnect(lost)
	w.awaitCall(1, scheduler.Call_KILL, func(c faultproxy.RecordedCall) bool { return c.Kill.TaskID.Value == before.ID })
	w.awaitProcessed(in, "after")
	if got := in.getJob("train").Tasks[0]; got.ID != again.ID || got.State != job.Running {
		t.Errorf("the replacement is now %s, %s", got.ID, got.State)
	}
}
