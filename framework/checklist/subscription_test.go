package checklist

import (
	"net/http"
	"slices"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework"
	"mesos-gpu/internal/testing/faultproxy"
	"mesos-gpu/job"
)

func isNotSubscribe(c *faultproxy.RecordedCall) bool { return c.GetType() != scheduler.Call_SUBSCRIBE }

// runJob submits a job, waits until it is RUNNING and lets it finish.
func (w *testEnv) runJob(in *testInstance, name string, gpus int) {
	w.t.Helper()
	in.submit(w.newSpec(name, gpus))
	in.awaitTask(name, job.Running)
	w.finishTasks(name)
	in.awaitTask(name, job.Finished)
}

func TestMesos01_SubscribeHasNoStreamID(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	w.runJob(in, "train", 1)
	w.awaitAcknowledged(in.awaitTask("train", job.Finished).ID, mesos.TASK_FINISHED)
	w.awaitCondition("all answers", func() bool {
		return !slices.ContainsFunc(w.Calls(), func(c faultproxy.RecordedCall) bool { return c.Status == 0 })
	})
	in.stop()
	subscribe := w.awaitCall(1, scheduler.Call_SUBSCRIBE, nil)
	if subscribe.StreamID != "" {
		t.Errorf("SUBSCRIBE names the stream %q", subscribe.StreamID)
	}
	ids := map[string]bool{}
	for _, c := range w.Calls() {
		if c.GetType() == scheduler.Call_SUBSCRIBE {
			continue
		}
		ids[c.StreamID] = true
		if c.Conn == subscribe.Conn {
			t.Errorf("%s came on the connection of the subscription", c.GetType())
		}
		if c.Status != http.StatusAccepted {
			t.Errorf("%s was answered %d", c.GetType(), c.Status)
		}
	}
	if len(ids) != 1 || ids[""] {
		t.Errorf("calls name the streams %v, want one", ids)
	}
}

func TestMesos02_NoCallBeforeSubscribed(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	held, release := make(chan struct{}), make(chan struct{})
	w.SetFilter(func(e *scheduler.Event) []*scheduler.Event {
		if e.GetType() == scheduler.Event_SUBSCRIBED {
			close(held)
			<-release
			w.SetFilter(nil)
		}
		return []*scheduler.Event{e}
	})
	in := w.startScheduler(nil)
	<-held
	in.submit(w.newSpec("train", 1)) // recorded; offers are revived for it
	if calls := w.callTypes(); len(calls) != 1 {
		t.Errorf("calls before SUBSCRIBED: %v", calls)
	}
	close(release)
	in.awaitTask("train", job.Running)

	// 403 means that the framework is not subscribed.
	w.InjectFault(1, isNotSubscribe, faultproxy.NotSubscribed())
	w.finishTasks("train") // the acknowledgement of its status fails
	again := w.awaitCall(2, scheduler.Call_SUBSCRIBE, nil)
	if first := w.awaitCall(1, scheduler.Call_SUBSCRIBE, nil); again.FrameworkID == nil || first.FrameworkID != nil {
		t.Errorf("subscribed as %v, then as %v", first.FrameworkID, again.FrameworkID)
	}
	in.awaitTask("train", job.Finished)
}

// A master that does not lead answers every call with 307.
func TestMesos03_RedirectIsFollowedForAllCalls(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	standby := w.addProxy()
	standby.ReportLeader(w.server.URL)
	in := w.startScheduler(func(c *framework.SchedulerConfig) { c.Master = standby.server.URL })
	w.runJob(in, "one", 1)
	if calls := w.listCalls(scheduler.Call_ACCEPT, nil); len(calls) == 0 {
		t.Error("the leader got no ACCEPT")
	}
	// Leadership changes. The next call that is not SUBSCRIBE is redirected first.
	standby.ReportLeader("")
	w.InjectFault(-1, isNotSubscribe, faultproxy.RedirectTo(standby.server.URL))
	in.submit(w.newSpec("two", 1))
	w.awaitCondition("a call that was answered 307", func() bool {
		return slices.ContainsFunc(w.Calls(), func(c faultproxy.RecordedCall) bool { return c.Status == http.StatusTemporaryRedirect })
	})
	w.ReportLeader(standby.server.URL)
	in.awaitTask("two", job.Running)
	if calls := standby.listCalls(scheduler.Call_ACCEPT, nil); len(calls) == 0 {
		t.Error("the new leader got no ACCEPT")
	}
}

// The second master has only the state that agents and the framework send it.
func TestMesos04_LeaderIsLost(t *testing.T) {
	t.Run("list", func(t *testing.T) {
		w := newTestEnv(t, gpuAgent)
		next := w.newSuccessor()
		w.loseLeader(next, w.server.URL+","+next.server.URL, func() {})
	})
	t.Run("zookeeper", func(t *testing.T) {
		w := newTestEnv(t, gpuAgent)
		next, masters := w.newSuccessor(), newElection(t)
		leave := masters.addMaster(w)
		masters.addMaster(next)
		w.loseLeader(next, masters.url, leave)
	})
}

func (w *testEnv) loseLeader(next *testEnv, master string, leave func()) {
	w.t.Helper()
	in := w.startScheduler(func(c *framework.SchedulerConfig) { c.Master = master })
	in.submit(w.newSpec("train", 1))
	before := in.awaitTask("train", job.Running)
	w.crashMaster()
	leave()
	w.moveLeadership(next)
	subscribe := next.awaitCall(1, scheduler.Call_SUBSCRIBE, func(c faultproxy.RecordedCall) bool { return c.Status == http.StatusOK })
	if got := subscribe.GetFrameworkID().GetValue(); got != w.frameworkID() {
		w.t.Errorf("subscribed to the next master with id %q, want %q", got, w.frameworkID())
	}
	next.awaitProcessed(in, "settled")
	if after := in.getJob("train").Tasks[0]; after.ID != before.ID || after.State != job.Running {
		w.t.Errorf("task %s became %s, %s", before.ID, after.ID, after.State)
	}
	next.finishTasks("train")
	in.awaitTask("train", job.Finished)
}

func TestMesos05_MissedHeartbeatsEndTheSubscription(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	const interval = 200 * time.Millisecond
	w.SetFilter(func(e *scheduler.Event) []*scheduler.Event {
		if e.GetType() != scheduler.Event_SUBSCRIBED {
			return nil // no events from now on
		}
		seconds := interval.Seconds()
		e.Subscribed.HeartbeatIntervalSeconds = &seconds
		return []*scheduler.Event{e}
	})
	in := w.startScheduler(nil)
	told := w.awaitEvent(1, scheduler.Event_SUBSCRIBED, nil)
	again := w.awaitCall(2, scheduler.Call_SUBSCRIBE, nil)
	if silent := again.At.Sub(told.At); silent < 5*interval || silent > waitTimeout/2 {
		t.Errorf("subscribed again %s after the last event, heartbeat interval %s", silent, interval)
	}
	w.ClearFaults()
	w.runJob(in, "train", 1)
}
