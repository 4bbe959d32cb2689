package checklist

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/testing/faultproxy"
	"mesos-gpu/job"
)

// The scheduler dies while its ACCEPT is in flight. The next one finds the launch in its
// journal and reconciles the task.
func TestMesos12_IntentIsRecordedBeforeAccept(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	fault, copied := in.copyJournalFirst(faultproxy.DropConnection)
	w.InjectFault(-1, faultproxy.MatchType(scheduler.Call_ACCEPT), fault)
	in.submit(w.newSpec("train", 1))
	journal := <-copied
	id := launchedTasks(w.awaitCall(1, scheduler.Call_ACCEPT, nil).Call)[0]
	in.stop()
	w.ClearFaults()
	subscriptions := len(w.listCalls(scheduler.Call_SUBSCRIBE, nil))
	next := w.startFromJournal(journal)
	asked := w.awaitCall(1, scheduler.Call_RECONCILE, isReconcileOf(id))
	if asked.Stream <= subscriptions {
		t.Error("the first scheduler reconciled its launch before it stopped")
	}
	if got := next.awaitTask("train", job.Running).ID; got == id {
		t.Errorf("the launch of %s came through", id)
	}
}

// The master accepts the launch, but no task starts and no update arrives.
func TestMesos13_UnconfirmedLaunchIsRetried(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	w.InjectFault(1, faultproxy.MatchType(scheduler.Call_ACCEPT), w.declineBefore(faultproxy.IgnoreCall()))
	in := w.startScheduler(nil)
	in.submit(w.newSpec("train", 1))
	accept := w.awaitCall(1, scheduler.Call_ACCEPT, nil)
	id := launchedTasks(accept.Call)[0]
	asked := w.awaitCall(1, scheduler.Call_RECONCILE, isReconcileOf(id))
	if waited := asked.At.Sub(accept.At); waited < launchTimeout/2 {
		t.Errorf("reconciled the launch after %s, want about %s", waited, launchTimeout)
	}
	if again := in.awaitTask("train", job.Running); again.ID == id {
		t.Errorf("task %s runs, which the master never saw", id)
	}
	if n := len(w.listCalls(scheduler.Call_ACCEPT, nil)); n != 2 {
		t.Errorf("%d ACCEPTs, want one for each attempt", n)
	}
}

// Every update arrives twice, and finally an old one arrives again.
func TestMesos14_DuplicateUpdatesChangeNothing(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	w.SetFilter(func(e *scheduler.Event) []*scheduler.Event {
		if e.GetType() == scheduler.Event_UPDATE {
			return []*scheduler.Event{e, e}
		}
		return []*scheduler.Event{e}
	})
	in := w.startScheduler(nil)
	in.submit(w.newSpec("train", 1))
	var states []job.State
	for ev, err := range in.StreamEvents(in.withTimeout(), "train") {
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, ev.State)
		if ev.State == job.Running {
			w.finishTasks("train")
		}
		if !ev.State.IsLive() {
			break
		}
	}
	if !slices.IsSortedFunc(states, func(a, b job.State) int { return stateOrder(a) - stateOrder(b) }) ||
		len(slices.Compact(slices.Clone(states))) != len(states) {
		t.Errorf("the job went through %v", states)
	}
	running := w.awaitEvent(1, scheduler.Event_UPDATE, func(e faultproxy.RecordedEvent) bool { return e.Update.Status.GetState() == mesos.TASK_RUNNING })
	w.ClearFaults()
	ended := in.getJob("train").Tasks[0]
	w.InjectEvents(running.Event)
	w.awaitProcessed(in, "settled")
	if got := in.getJob("train").Tasks[0]; got.State != job.Finished || got.ID != ended.ID || !got.Changed.Equal(ended.Changed) {
		t.Errorf("after RUNNING came once more: %+v, was %+v", got, ended)
	}
	if n := len(w.listCalls(scheduler.Call_ACKNOWLEDGE, isAcknowledgeOf(running))); n != 3 {
		t.Errorf("RUNNING came 3 times and was acknowledged %d times", n)
	}
}

func stateOrder(s job.State) int { return slices.Index(job.States(), s) }

func isAcknowledgeOf(e faultproxy.RecordedEvent) func(faultproxy.RecordedCall) bool {
	return func(c faultproxy.RecordedCall) bool {
		return bytes.Equal(c.GetAcknowledge().GetUUID(), e.Update.Status.UUID)
	}
}

func TestMesos15_AcknowledgedOnceRecordedAndOnlyWithUUID(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	var mu sync.Mutex
	journals := map[string]string{} // the journal at the time of each ACKNOWLEDGE, by UUID
	w.InjectFault(-1, faultproxy.MatchType(scheduler.Call_ACKNOWLEDGE), func(rw http.ResponseWriter, r *http.Request, master http.Handler) {
		call := readCall(r)
		mu.Lock()
		journals[string(call.Acknowledge.UUID)] = in.copyJournal()
		mu.Unlock()
		master.ServeHTTP(rw, r)
	})
	in.submit(w.newSpec("train", 1))
	id := in.awaitTask("train", job.Running).ID
	w.CutStream() // causes a reconciliation, whose answers have no UUID
	w.awaitEvent(1, scheduler.Event_UPDATE, func(e faultproxy.RecordedEvent) bool {
		return e.Stream == 2 && isReconciliation(e.Event) && len(e.Update.Status.UUID) == 0
	})
	w.finishTasks("train")
	in.awaitTask("train", job.Finished)
	w.awaitAcknowledged(id, mesos.TASK_FINISHED) // and answered: the journal has been copied
	in.stop()
	known := map[string]mesos.TaskState{}
	for _, e := range w.Events() {
		if e.GetType() == scheduler.Event_UPDATE && len(e.Update.Status.UUID) > 0 {
			known[string(e.Update.Status.UUID)] = e.Update.Status.GetState()
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(journals) < 2 {
		t.Errorf("%d updates were acknowledged, want 2 at least", len(journals))
	}
	for uuid, journal := range journals {
		state, told := known[uuid]
		if !told {
			t.Errorf("acknowledged %x, which no update has", uuid)
			continue
		}
		want := job.State(strings.TrimPrefix(state.String(), "TASK_"))
		if jobs := w.readJournal(journal); len(jobs) != 1 || stateOrder(jobs[0].Tasks[0].State) < stateOrder(want) {
			t.Errorf("%s was acknowledged while the journal had %s", state, jobs[0].Tasks[0].State)
		}
	}
}
