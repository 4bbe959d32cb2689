package checklist

import (
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework"
	"mesos-gpu/internal/faultproxy"
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
	// The other states end a task, and another attempt follows. A master reports
	// UNKNOWN for a task of which it has no record.
	for _, state := range []mesos.TaskState{mesos.TASK_GONE, mesos.TASK_DROPPED, mesos.TASK_GONE_BY_OPERATOR, mesos.TASK_LOST, mesos.TASK_UNKNOWN} {
		name := state.String()
		in.submit(w.newSpec(name, 0))
		before := in.awaitTask(name, job.Running)
		w.InjectEvents(updateEvent(mesos.TaskStatus{
			TaskID: mesos.TaskID{Value: before.ID}, AgentID: &mesos.AgentID{Value: before.AgentID}, State: &state, Source: mesos.SOURCE_MASTER.Enum(),
		}))
		again := in.awaitTaskCondition(name, "running anew", func(t job.Task) bool { return t.ID != before.ID && t.State == job.Running })
		if again.Attempt != 2 {
			t.Errorf("after %s comes attempt %d", state, again.Attempt)
		}
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
	again := in.awaitTaskCondition("train", "running anew", func(t job.Task) bool { return t.ID != before.ID && t.State == job.Running })
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
