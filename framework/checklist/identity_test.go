package checklist

import (
	"errors"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework"
	"mesos-gpu/framework/master"
	"mesos-gpu/internal/testing/faultproxy"
	"mesos-gpu/job"
)

// copyJournalFirst returns a fault that copies the journal before the first call is answered.
func (in *testInstance) copyJournalFirst(then faultproxy.CallFault) (fault faultproxy.CallFault, copied chan string) {
	copied = make(chan string, 1)
	copyOnce := sync.OnceFunc(func() { copied <- in.copyJournal() })
	return faultproxy.RunFirst(copyOnce, then), copied
}

// startFromJournal starts a scheduler with a copy of another one's journal.
func (w *testEnv) startFromJournal(journal string) *testInstance {
	return w.startScheduler(func(c *framework.SchedulerConfig) { c.JournalPath = journal })
}

func TestMesos07_FrameworkIDIsRecordedBeforeUse(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	var in *testInstance
	started := make(chan struct{})
	copied := make(chan string, 1)
	copyOnce := sync.OnceFunc(func() { <-started; copied <- in.copyJournal() })
	w.InjectFault(-1, isNotSubscribe, faultproxy.RunFirst(copyOnce, faultproxy.ForwardCall)) // the first use of the id
	in = w.startScheduler(nil)
	close(started)
	in.submit(w.newSpec("train", 1))
	in.awaitTask("train", job.Running)
	in.stop()
	w.startFromJournal(<-copied)
	again := w.awaitCall(2, scheduler.Call_SUBSCRIBE, nil)
	if got := again.GetFrameworkID().GetValue(); got != w.frameworkID() {
		t.Errorf("a scheduler with the copied journal subscribes as %q, want %q", got, w.frameworkID())
	}
}

func TestMesos08_FailoverTimeoutIsAWeek(t *testing.T) {
	w := newTestEnv(t, plainAgent)
	const month = 28 * 24 * time.Hour
	for n, tc := range []struct{ set, want time.Duration }{{0, 7 * 24 * time.Hour}, {month, month}} {
		in := w.startScheduler(func(c *framework.SchedulerConfig) { c.FailoverTimeout = tc.set })
		info := w.awaitCall(n+1, scheduler.Call_SUBSCRIBE, nil).Subscribe.FrameworkInfo
		if got := info.GetFailoverTimeout(); got != tc.want.Seconds() {
			t.Errorf("failover timeout %v s, want %v s", got, tc.want.Seconds())
		}
		in.stop()
	}
}

func TestMesos09_ErrorEndsTheSubscription(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	in.submit(w.newSpec("train", 1))
	id := in.awaitTask("train", job.Running).ID
	w.InjectEvents(failureEvent("the master is in a bad mood"))
	again := w.awaitCall(2, scheduler.Call_SUBSCRIBE, nil)
	if got := again.GetFrameworkID().GetValue(); got != w.frameworkID() {
		t.Errorf("subscribed again as %q, want %q", got, w.frameworkID())
	}
	w.awaitProcessed(in, "settled")
	if got := in.awaitTask("train", job.Running).ID; got != id {
		t.Errorf("task %s became %s", id, got)
	}

	// A removed framework does not register again by itself, under any id.
	w.callOperator(&operator.Call{Type: operator.Call_TEARDOWN, Teardown: &operator.Call_Teardown{FrameworkID: mesos.FrameworkID{Value: w.frameworkID()}}})
	if err := in.awaitExit(); !errors.Is(err, master.ErrRemoved) {
		t.Errorf("the scheduler ended with %v", err)
	}
	for _, c := range w.listCalls(scheduler.Call_SUBSCRIBE, nil)[1:] {
		if c.GetFrameworkID().GetValue() != w.frameworkID() {
			t.Errorf("subscribed as %q", c.GetFrameworkID().GetValue())
		}
	}
	// A new journal is an explicit request for a new id.
	w.runJob(w.startScheduler(nil), "again", 1)
}

func TestMesos10_NewInstanceEvictsTheOld(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	first := w.startScheduler(nil)
	first.submit(w.newSpec("train", 1))
	id := first.awaitTask("train", job.Running).ID
	second := w.startFromJournal(first.copyJournal())
	if err := first.awaitExit(); !errors.Is(err, master.ErrReplaced) {
		t.Errorf("the first scheduler ended with %v", err)
	}
	w.awaitProcessed(second, "settled")
	if got := second.awaitTask("train", job.Running).ID; got != id {
		t.Errorf("task %s became %s", id, got)
	}
	if n := len(w.listCalls(scheduler.Call_SUBSCRIBE, nil)); n != 2 {
		t.Errorf("%d subscriptions, want one of each scheduler", n)
	}
}

func TestMesos11_TeardownOnlyOnRequest(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	in.submit(w.newSpec("train", 1))
	id := in.awaitTask("train", job.Running).ID
	if info := w.awaitCall(1, scheduler.Call_SUBSCRIBE, nil).Subscribe.FrameworkInfo; !info.GetCheckpoint() {
		t.Error("the framework does not ask for checkpoints")
	}
	in.stop()
	if calls := w.listCalls(scheduler.Call_TEARDOWN, nil); len(calls) > 0 {
		t.Error("a scheduler that stops tears the framework down")
	}
	if tasks := w.callOperator(&operator.Call{Type: operator.Call_GET_TASKS}).GetTasks.Tasks; len(tasks) != 1 || tasks[0].TaskID.Value != id {
		t.Errorf("after the stop the master has tasks %v, want %s", tasks, id)
	}
	again := w.startFromJournal(in.journal)
	w.awaitProcessed(again, "settled")
	if err := again.Teardown(again.withTimeout()); err != nil {
		t.Fatal(err)
	}
	w.awaitCall(1, scheduler.Call_TEARDOWN, nil)
	all := w.callOperator(&operator.Call{Type: operator.Call_GET_FRAMEWORKS}).GetFrameworks
	if len(all.Frameworks) != 0 || len(all.CompletedFrameworks) != 1 {
		t.Errorf("after TEARDOWN %d frameworks and %d completed, want 0 and 1", len(all.Frameworks), len(all.CompletedFrameworks))
	}
}
