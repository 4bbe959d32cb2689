package checklist

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/faultproxy"
	"mesos-gpu/job"
)

// onSubscription matches calls on the given subscription that match accepts.
func onSubscription(stream int, match func(faultproxy.RecordedCall) bool) func(faultproxy.RecordedCall) bool {
	return func(c faultproxy.RecordedCall) bool { return c.Stream == stream && match(c) }
}

// acknowledged waits until a task's update is acknowledged: otherwise the agent would repeat
// it on the next subscription. Answers to reconciliations have no UUID and are never acknowledged.
func (w *world) acknowledged(id string, state mesos.TaskState) {
	w.t.Helper()
	told := w.event(1, scheduler.Event_UPDATE, func(e faultproxy.RecordedEvent) bool {
		return e.Update.Status.TaskID.Value == id && e.Update.Status.GetState() == state && len(e.Update.Status.UUID) > 0
	})
	w.until("the acknowledgement of "+state.String(), func() bool {
		calls := w.these(scheduler.Call_ACKNOWLEDGE, acknowledges(told))
		return len(calls) > 0 && calls[0].Status == http.StatusAccepted
	})
}

func TestMesos16_ReconcileAfterEverySubscription(t *testing.T) {
	w := newWorld(t, gpuAgent)
	in := w.start(nil)
	in.submit(w.spec("train", 1))
	id := in.task("train", job.Running).ID
	w.acknowledged(id, mesos.TASK_RUNNING)
	w.SetFilter(dropEvents(reconciled)) // the master does not answer
	w.CutStream()
	first := w.call(1, scheduler.Call_RECONCILE, onSubscription(2, reconcilesTask(id)))
	second := w.call(2, scheduler.Call_RECONCILE, onSubscription(2, reconcilesTask(id)))
	third := w.call(3, scheduler.Call_RECONCILE, onSubscription(2, reconcilesTask(id)))
	if took := third.At.Sub(first.At); took < 5*reconcileRetry/2 { // two equal delays would be 2 of them; each call may be late
		t.Errorf("asked again after %s, then after %s: want ever longer", second.At.Sub(first.At), third.At.Sub(second.At))
	}
	w.ClearFaults()
	w.event(1, scheduler.Event_UPDATE, func(e faultproxy.RecordedEvent) bool {
		return reconciled(e.Event) && e.Update.Status.TaskID.Value == id
	})
	w.settled(in, "settled")
	asked := len(w.these(scheduler.Call_RECONCILE, reconcilesTask(id)))
	all := len(w.these(scheduler.Call_RECONCILE, implicit))
	in.advance(14 * time.Minute) // any retry would be due by then
	in.advance(6 * time.Minute)
	w.call(all+1, scheduler.Call_RECONCILE, implicit)
	if n := len(w.these(scheduler.Call_RECONCILE, reconcilesTask(id))); n != asked {
		t.Errorf("asked %d times more about a task that the master had told of", n-asked)
	}
}

func TestMesos17_PeriodicImplicitReconciliation(t *testing.T) {
	w := newWorld(t, gpuAgent)
	in := w.start(nil)
	in.submit(w.spec("train", 1))
	in.task("train", job.Running)
	w.call(1, scheduler.Call_RECONCILE, implicit) // shortly after the subscription
	in.advance(10 * time.Minute)
	w.settled(in, "settled")
	if n := len(w.these(scheduler.Call_RECONCILE, implicit)); n != 1 {
		t.Errorf("asked for everything %d times within 10 minutes, want once", n)
	}
	for n := range 2 {
		in.advance(15 * time.Minute)
		w.call(n+2, scheduler.Call_RECONCILE, implicit)
	}
}

// A subscription that closely follows another one starts its own reconciliation and ends
// the previous one.
func TestMesos18_OneReconciliationAtATime(t *testing.T) {
	w := newWorld(t, gpuAgent)
	in := w.start(nil)
	in.submit(w.spec("train", 1))
	id := in.task("train", job.Running).ID
	w.acknowledged(id, mesos.TASK_RUNNING)
	w.SetFilter(dropEvents(reconciled))
	w.CutStream()
	w.call(1, scheduler.Call_RECONCILE, onSubscription(2, reconcilesTask(id)))
	w.CutStream()
	first := w.call(1, scheduler.Call_RECONCILE, onSubscription(3, reconcilesTask(id)))
	second := w.call(2, scheduler.Call_RECONCILE, onSubscription(3, reconcilesTask(id)))
	if gap := second.At.Sub(first.At); gap < reconcileRetry*3/4 { // the first may be late
		t.Errorf("asked again after %s, want %s at least: an older round goes on", gap, reconcileRetry)
	}
}

// The task was launched after the journal of the next scheduler was copied.
func TestMesos19_UnknownTaskIsKilled(t *testing.T) {
	w := newWorld(t, gpuAgent)
	in := w.start(nil)
	w.run(in, "known", 0)
	old := in.copyJournal()
	in.submit(w.spec("stray", 1))
	id := in.task("stray", job.Running).ID
	in.end()
	w.goOn(old)
	w.call(1, scheduler.Call_KILL, func(c faultproxy.RecordedCall) bool { return c.Kill.TaskID.Value == id })
	w.event(1, scheduler.Event_UPDATE, func(e faultproxy.RecordedEvent) bool {
		return e.Update.Status.TaskID.Value == id && e.Update.Status.GetState() == mesos.TASK_KILLED
	})
}

// The answer to a reconciliation contains only the state and the master's own message. It
// must not erase what the task's updates have reported.
func TestMesos20_ReconciledStatusKeepsTaskFields(t *testing.T) {
	w := newWorld(t, gpuAgent)
	in := w.start(nil)
	in.submit(w.spec("train", 1))
	id := in.task("train", job.Running).ID
	w.settled(in, "before")
	before := in.job("train")
	in.advance(20 * time.Minute)
	w.event(1, scheduler.Event_UPDATE, func(e faultproxy.RecordedEvent) bool {
		return reconciled(e.Event) && e.Update.Status.TaskID.Value == id && e.Update.Status.GetMessage() != before.Tasks[0].Message
	})
	w.settled(in, "after")
	if diff := cmp.Diff(before, in.job("train")); diff != "" {
		t.Errorf("the job before and after:\n%s", diff)
	}
	w.finish("train")
	ended := in.task("train", job.Finished)
	w.CutStream()
	w.settled(in, "again")
	if diff := cmp.Diff(ended, in.job("train").Tasks[0]); diff != "" {
		t.Errorf("the ended task before and after:\n%s", diff)
	}
}
