package checklist

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework"
	"mesos-gpu/internal/testing/faultproxy"
	"mesos-gpu/job"
)

// FAILURE reports that an agent or an executor is gone. The states of its tasks come from
// their own updates, before or after it.
func TestMesos38_FailureEventChangesNoTaskState(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	in.submit(w.newSpec("train", 1))
	task := in.awaitTask("train", job.Running)
	agent, executor, status := mesos.AgentID{Value: task.AgentID}, mesos.ExecutorID{Value: task.ID}, int32(9)
	gone := mesos.OfferID{Value: "gone-by"}
	w.InjectEvents(
		&scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: &agent, ExecutorID: &executor, Status: &status}},
		&scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: &agent}},
		&scheduler.Event{Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{OfferID: gone}},
	)
	w.awaitProcessed(in, "settled")
	if got := in.getJob("train").Tasks[0]; got.ID != task.ID || got.State != job.Running {
		t.Errorf("after FAILURE task %s is %s, %s", task.ID, got.ID, got.State)
	}
	w.finishTasks("train")
	in.awaitTask("train", job.Finished)
	for _, e := range w.Events() { // and a delayed RESCIND
		if e.GetType() == scheduler.Event_OFFERS {
			gone = e.Offers.Offers[0].ID
		}
	}
	w.InjectEvents(&scheduler.Event{Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{OfferID: gone}})
	w.runJob(in, "more", 1)
}

func TestMesos39_KillIsRepeatedUntilTaskEnds(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	in.submit(w.newSpec("train", 1))
	id := in.awaitTask("train", job.Running).ID
	w.InjectFault(2, faultproxy.MatchType(scheduler.Call_KILL), faultproxy.IgnoreCall()) // lost before it reaches the agent
	if err := in.KillJob(in.withTimeout(), "train"); err != nil {
		t.Fatal(err)
	}
	third := w.awaitCall(3, scheduler.Call_KILL, func(c faultproxy.RecordedCall) bool { return c.Kill.TaskID.Value == id })
	if kills := w.listCalls(scheduler.Call_KILL, nil); third.At.Sub(kills[0].At) < killRetry {
		t.Errorf("the third KILL was sent %s after the first", third.At.Sub(kills[0].At))
	}
	in.awaitTask("train", job.Killed)

	// A kill while the launch is in flight.
	arrived, release := make(chan struct{}), make(chan struct{})
	w.InjectFault(1, faultproxy.MatchType(scheduler.Call_ACCEPT), faultproxy.RunFirst(func() { close(arrived); <-release }, faultproxy.ForwardCall))
	in.submit(w.newSpec("late", 1))
	<-arrived
	if err := in.KillJob(in.withTimeout(), "late"); err != nil {
		t.Fatal(err)
	}
	close(release)
	late := in.awaitTask("late", job.Killed)
	w.awaitCall(1, scheduler.Call_KILL, func(c faultproxy.RecordedCall) bool { return c.Kill.TaskID.Value == late.ID })
	w.runJob(in, "after", 2) // both GPUs are free again
}

func TestMesos40_TaskKillingOnlyWithTheCapability(t *testing.T) {
	w := newExecutorEnv(t)
	told := func(id string) bool {
		return slices.ContainsFunc(w.Events(), func(e faultproxy.RecordedEvent) bool {
			status := e.GetUpdate().GetStatus()
			return status.TaskID.Value == id && status.GetState() == mesos.TASK_KILLING
		})
	}
	in := w.startScheduler(nil)
	if info := w.awaitCall(1, scheduler.Call_SUBSCRIBE, nil).Subscribe.FrameworkInfo; !hasCapability(info, mesos.FrameworkInfo_Capability_TASK_KILLING_STATE) {
		t.Errorf("capabilities %v", info.Capabilities)
	}
	kill := func(in *testInstance, name string) string {
		in.submit(w.newSpec(name, 0))
		id := in.awaitTask(name, job.Running).ID
		if err := in.KillJob(in.withTimeout(), name); err != nil {
			t.Fatal(err)
		}
		in.awaitTask(name, job.Killed)
		return id
	}
	if id := kill(in, "told"); !told(id) {
		t.Error("no TASK_KILLING for a framework with the capability")
	}
	in.stop()
	w.InjectFault(-1, faultproxy.MatchType(scheduler.Call_SUBSCRIBE), rewriteCall(func(c *scheduler.Call) {
		info := c.Subscribe.FrameworkInfo
		info.Capabilities = slices.DeleteFunc(info.Capabilities, func(c mesos.FrameworkInfo_Capability) bool {
			return c.Type == mesos.FrameworkInfo_Capability_TASK_KILLING_STATE
		})
	}))
	if id := kill(w.startScheduler(nil), "untold"); told(id) {
		t.Error("TASK_KILLING for a framework without the capability")
	}
}

// The test replaces each task's first update by a terminal one with the reason.
func TestMesos41_ReasonDecidesWhetherTaskIsRetried(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(func(c *framework.SchedulerConfig) { c.Sched.RetryDelay = 10 * time.Millisecond })
	for _, tc := range []struct {
		name    string
		state   mesos.TaskState
		reason  mesos.TaskStatus_Reason
		retries int
		again   bool
		ends    job.State
	}{
		{"launch-failed", mesos.TASK_FAILED, mesos.REASON_CONTAINER_LAUNCH_FAILED, 1, true, ""},
		{"launch-failed-for-good", mesos.TASK_FAILED, mesos.REASON_CONTAINER_LAUNCH_FAILED, 0, false, job.Failed},
		{"out-of-memory", mesos.TASK_FAILED, mesos.REASON_CONTAINER_LIMITATION_MEMORY, 1, true, ""},
		{"out-of-memory-for-good", mesos.TASK_FAILED, mesos.REASON_CONTAINER_LIMITATION_MEMORY, 0, false, job.Failed},
		{"invalid-offers", mesos.TASK_DROPPED, mesos.REASON_INVALID_OFFERS, 0, true, ""},
		{"invalid", mesos.TASK_ERROR, mesos.REASON_TASK_INVALID, 3, false, job.Refused},
	} {
		s := w.newSpec(tc.name, 0)
		s.Retries = tc.retries
		var first string
		w.SetFilter(func(e *scheduler.Event) []*scheduler.Event {
			status := e.GetUpdate().GetStatus()
			if e.GetType() != scheduler.Event_UPDATE || !strings.HasPrefix(status.TaskID.Value, tc.name+".") || first != "" && status.TaskID.Value != first {
				return []*scheduler.Event{e}
			}
			if first == status.TaskID.Value {
				return nil // for the scheduler this task has ended
			}
			first = status.TaskID.Value
			status.State, status.Reason, status.UUID = &tc.state, &tc.reason, nil
			return []*scheduler.Event{updateEvent(status)}
		})
		in.submit(s)
		if tc.again {
			if task := in.awaitTask(tc.name, job.Running); task.Attempt != 2 {
				t.Errorf("%s: runs in attempt %d", tc.name, task.Attempt)
			}
		} else if task := in.awaitTask(tc.name, tc.ends); task.Attempt != 1 || task.Reason != tc.reason.String() {
			t.Errorf("%s: ended in attempt %d because of %q", tc.name, task.Attempt, task.Reason)
		}
		w.SetFilter(nil)
	}
}

// The framework performs no operations except launches, which have no id. It acknowledges
// feedback about other operations, for example of an earlier version.
func TestMesos42_OperationFeedbackIsAcknowledged(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	in.submit(w.newSpec("train", 1))
	in.awaitTask("train", job.Running)
	for _, c := range w.listCalls(scheduler.Call_ACCEPT, nil) {
		for _, op := range c.Accept.Operations {
			if op.Type != mesos.Offer_Operation_LAUNCH || op.ID != nil {
				t.Errorf("operation %s with id %v", op.Type, op.ID)
			}
		}
	}
	agent, id := w.agentID(gpuAgent), uuid.New()
	status := mesos.OperationStatus{
		OperationID: &mesos.OperationID{Value: "reserve-1"}, State: mesos.OPERATION_FINISHED, AgentID: &agent, UUID: &mesos.UUID{Value: id[:]},
	}
	feedback := func(s mesos.OperationStatus) *scheduler.Event {
		return &scheduler.Event{Type: scheduler.Event_UPDATE_OPERATION_STATUS, UpdateOperationStatus: &scheduler.Event_UpdateOperationStatus{Status: s}}
	}
	w.InjectEvents(feedback(status))
	w.awaitCall(1, scheduler.Call_ACKNOWLEDGE_OPERATION_STATUS, func(c faultproxy.RecordedCall) bool {
		return bytes.Equal(c.AcknowledgeOperationStatus.UUID, id[:]) && c.AcknowledgeOperationStatus.OperationID == *status.OperationID
	})
	status.UUID = nil // requires no acknowledgement
	w.InjectEvents(feedback(status))
	w.awaitProcessed(in, "settled")
	if n := len(w.listCalls(scheduler.Call_ACKNOWLEDGE_OPERATION_STATUS, nil)); n != 1 {
		t.Errorf("%d acknowledgements, want 1", n)
	}
}
