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
	w := newWorld(t, gpuAgent, plainAgent)
	in := w.start(nil)
	if info := w.call(1, scheduler.Call_SUBSCRIBE, nil).Subscribe.FrameworkInfo; !hasCapability(info, mesos.FrameworkInfo_Capability_PARTITION_AWARE) {
		t.Errorf("capabilities %v", info.Capabilities)
	}
	in.submit(w.spec("train", 1))
	id := in.task("train", job.Running).ID
	w.cluster.partition(gpuAgent)
	if got := in.task("train", job.Unreachable); got.ID != id || in.job("train").Terminal {
		t.Errorf("the unreachable task is %+v, was %s", got, id)
	}
	w.cluster.heal(gpuAgent)
	if got := in.task("train", job.Running).ID; got != id {
		t.Errorf("task %s came back as %s", id, got)
	}
	w.finish("train")
	in.task("train", job.Finished)
	// The other states end a task, and another attempt follows. A master reports
	// UNKNOWN for a task of which it has no record.
	for _, state := range []mesos.TaskState{mesos.TASK_GONE, mesos.TASK_DROPPED, mesos.TASK_GONE_BY_OPERATOR, mesos.TASK_LOST, mesos.TASK_UNKNOWN} {
		name := state.String()
		in.submit(w.spec(name, 0))
		before := in.task(name, job.Running)
		w.InjectEvents(update(mesos.TaskStatus{
			TaskID: mesos.TaskID{Value: before.ID}, AgentID: &mesos.AgentID{Value: before.AgentID}, State: &state, Source: mesos.SOURCE_MASTER.Enum(),
		}))
		again := in.taskThat(name, "running anew", func(t job.Task) bool { return t.ID != before.ID && t.State == job.Running })
		if again.Attempt != 2 {
			t.Errorf("after %s comes attempt %d", state, again.Attempt)
		}
	}
}

func TestMesos35_UnreachableTasksAreReplacedAfterTimeout(t *testing.T) {
	w := newWorld(t, gpuAgent, otherGPUs)
	in := w.start(func(c *framework.SchedulerConfig) { c.Sched.UnreachableTimeout = 10 * time.Minute })
	in.submit(w.spec("train", 1))
	before := in.task("train", job.Running)
	lost := gpuAgent
	if before.AgentID != w.agentID(gpuAgent).Value {
		lost = otherGPUs
	}
	w.cluster.partition(lost)
	in.task("train", job.Unreachable)
	in.advance(8 * time.Minute)
	w.settled(in, "settled")
	if got := in.job("train").Tasks[0]; got.State != job.Unreachable || got.ID != before.ID {
		t.Errorf("replaced too soon: %s is %s", got.ID, got.State)
	}
	in.advance(3 * time.Minute)
	again := in.taskThat("train", "running anew", func(t job.Task) bool { return t.ID != before.ID && t.State == job.Running })
	if again.AgentID == before.AgentID {
		t.Errorf("the replacement runs on the same agent %s", again.AgentID)
	}
	// If the first task comes back, it is killed.
	w.cluster.heal(lost)
	w.call(1, scheduler.Call_KILL, func(c faultproxy.RecordedCall) bool { return c.Kill.TaskID.Value == before.ID })
	w.settled(in, "after")
	if got := in.job("train").Tasks[0]; got.ID != again.ID || got.State != job.Running {
		t.Errorf("the replacement is now %s, %s", got.ID, got.State)
	}
}
