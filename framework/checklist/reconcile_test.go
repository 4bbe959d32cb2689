package checklist

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/testing/faultproxy"
	"mesos-gpu/job"
)

// onSubscription matches calls on the given subscription that match accepts.
func onSubscription(stream int, match func(faultproxy.RecordedCall) bool) func(faultproxy.RecordedCall) bool {
	return func(c faultproxy.RecordedCall) bool { return c.Stream == stream && match(c) }
}

// awaitAcknowledged waits until a task's update is acknowledged: otherwise the agent would repeat
// it on the next subscription. Answers to reconciliations have no UUID and are never acknowledged.
func (w *testEnv) awaitAcknowledged(id string, state mesos.TaskState) {
	w.t.Helper()
	told := w.awaitEvent(1, scheduler.Event_UPDATE, func(e faultproxy.RecordedEvent) bool {
		return e.Update.Status.TaskID.Value == id && e.Update.Status.GetState() == state && len(e.Update.Status.UUID) > 0
	})
	w.awaitCondition("the acknowledgement of "+state.String(), func() bool {
		calls := w.listCalls(scheduler.Call_ACKNOWLEDGE, isAcknowledgeOf(told))
		return len(calls) > 0 && calls[0].Status == http.StatusAccepted
	})
}

func TestMesos16_ReconcileAfterEverySubscription(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	in.submit(w.newSpec("train", 1))
	id := in.awaitTask("train", job.Running).ID
	w.awaitAcknowledged(id, mesos.TASK_RUNNING)
	w.SetFilter(dropEvents(isReconciliation)) // the master does not answer
	w.CutStream()
	first := w.awaitCall(1, scheduler.Call_RECONCILE, onSubscription(2, isReconcileOf(id)))
	second := w.awaitCall(2, scheduler.Call_RECONCILE, onSubscription(2, isReconcileOf(id)))
	third := w.awaitCall(3, scheduler.Call_RECONCILE, onSubscription(2, isReconcileOf(id)))
	if took := third.At.Sub(first.At); took < 5*reconcileRetry/2 { // two equal delays would be 2 of them; each call may be late
		t.Errorf("reconciled after %s, then after %s: want growing intervals", second.At.Sub(first.At), third.At.Sub(second.At))
	}
	w.ClearFaults()
	w.awaitEvent(1, scheduler.Event_UPDATE, func(e faultproxy.RecordedEvent) bool {
		return isReconciliation(e.Event) && e.Update.Status.TaskID.Value == id
	})
	w.awaitProcessed(in, "settled")
	asked := len(w.listCalls(scheduler.Call_RECONCILE, isReconcileOf(id)))
	all := len(w.listCalls(scheduler.Call_RECONCILE, isImplicitReconcile))
	in.advance(14 * time.Minute) // any retry would be due by then
	in.advance(6 * time.Minute)
	w.awaitCall(all+1, scheduler.Call_RECONCILE, isImplicitReconcile)
	if n := len(w.listCalls(scheduler.Call_RECONCILE, isReconcileOf(id))); n != asked {
		t.Errorf("reconciled %d more times a task whose state was known", n-asked)
	}
}

func TestMesos17_PeriodicImplicitReconciliation(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	in.submit(w.newSpec("train", 1))
	in.awaitTask("train", job.Running)
	w.awaitCall(1, scheduler.Call_RECONCILE, isImplicitReconcile) // shortly after the subscription
	in.advance(10 * time.Minute)
	w.awaitProcessed(in, "settled")
	if n := len(w.listCalls(scheduler.Call_RECONCILE, isImplicitReconcile)); n != 1 {
		t.Errorf("%d implicit reconciliations within 10 minutes, want 1", n)
	}
	for n := range 2 {
		in.advance(15 * time.Minute)
		w.awaitCall(n+2, scheduler.Call_RECONCILE, isImplicitReconcile)
	}
}

// A subscription that closely follows another one starts its own reconciliation and ends
// the previous one.
func TestMesos18_OneReconciliationAtATime(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	in.submit(w.newSpec("train", 1))
	id := in.awaitTask("train", job.Running).ID
	w.awaitAcknowledged(id, mesos.TASK_RUNNING)
	w.SetFilter(dropEvents(isReconciliation))
	w.CutStream()
	w.awaitCall(1, scheduler.Call_RECONCILE, onSubscription(2, isReconcileOf(id)))
	w.CutStream()
	first := w.awaitCall(1, scheduler.Call_RECONCILE, onSubscription(3, isReconcileOf(id)))
	second := w.awaitCall(2, scheduler.Call_RECONCILE, onSubscription(3, isReconcileOf(id)))
	if gap := second.At.Sub(first.At); gap < reconcileRetry*3/4 { // the first may be late
		t.Errorf("reconciled after %s, want at least %s: an earlier reconciliation still runs", gap, reconcileRetry)
	}
}

// The task was launched after the journal of the next scheduler was copied.
func TestMesos19_UnknownTaskIsKilled(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	w.runJob(in, "known", 0)
	old := in.copyJournal()
	in.submit(w.newSpec("stray", 1))
	id := in.awaitTask("stray", job.Running).ID
	in.stop()
	w.startFromJournal(old)
	w.awaitCall(1, scheduler.Call_KILL, func(c faultproxy.RecordedCall) bool { return c.Kill.TaskID.Value == id })
	w.awaitEvent(1, scheduler.Event_UPDATE, func(e faultproxy.RecordedEvent) bool {
		return e.Update.Status.TaskID.Value == id && e.Update.Status.GetState() == mesos.TASK_KILLED
	})
}

// The answer to a reconciliation contains only the state and the master's own message. It
// must not erase what the task's updates have reported.
func TestMesos20_ReconciledStatusKeepsTaskFields(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	in.submit(w.newSpec("train", 1))
	id := in.awaitTask("train", job.Running).ID
	w.awaitProcessed(in, "before")
	before := in.getJob("train")
	in.advance(20 * time.Minute)
	w.awaitEvent(1, scheduler.Event_UPDATE, func(e faultproxy.RecordedEvent) bool {
		return isReconciliation(e.Event) && e.Update.Status.TaskID.Value == id && e.Update.Status.GetMessage() != before.Tasks[0].Message
	})
	w.awaitProcessed(in, "after")
	if diff := cmp.Diff(before, in.getJob("train")); diff != "" {
		t.Errorf("the job before and after:\n%s", diff)
	}
	w.finishTasks("train")
	ended := in.awaitTask("train", job.Finished)
	w.CutStream()
	w.awaitProcessed(in, "again")
	if diff := cmp.Diff(ended, in.getJob("train").Tasks[0]); diff != "" {
		t.Errorf("the ended task before and after:\n%s", diff)
	}
}
