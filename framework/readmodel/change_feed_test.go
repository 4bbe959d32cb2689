package readmodel

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// stateAndModel applies a State's changes to a model. Each call of applyEvents records the
// changes of its events together.
type stateAndModel struct {
	t    *testing.T
	st   *sched.State
	view *Model
	now  time.Time
}

func (l *stateAndModel) applyEvents(events ...sched.Event) []sched.Operation {
	var ops []sched.Operation
	for _, ev := range events {
		l.now = l.now.Add(time.Second)
		ops = append(ops, l.st.Step(l.now, ev)...)
	}
	c := l.st.TakeChanges()
	l.view.ApplyRecorded(journal.Change{Removed: c.Removed, Jobs: c.Jobs, Tasks: c.Tasks, Documents: c.Documents}, c.Transitions, c.LateEnds, c.Shared)
	return ops
}

// launchAttempt launches the pending attempt and returns its id.
func (l *stateAndModel) launchAttempt() string {
	l.t.Helper()
	l.applyEvents(sched.OffersReceived{Offers: []sched.Offer{{ID: fmt.Sprint("o", l.now.Unix()), AgentID: "S1", Hostname: "host",
		AgentURL: "http://10.0.0.1:5051/slave(1)", Free: sched.Amount{CPUs: 8, MemMiB: 8192}}}})
	for _, op := range l.applyEvents(sched.Cycle{}) {
		if a, ok := op.(sched.AcceptOffers); ok && len(a.Launches) == 1 {
			return a.Launches[0].TaskID
		}
	}
	l.t.Fatalf("nothing was launched: %+v %v", l.view.entry("web").Tasks, l.st.PendingReasons())
	return ""
}

// TestAttemptEndsAreReportedOnce: each end of an attempt is reported once, with the
// attempt's data, however many there are between two calls of TakeChanges, and the attempt
// is stored as it ended.
func TestAttemptEndsAreReportedOnce(t *testing.T) {
	l := &stateAndModel{t, sched.New(sched.SchedulerSettings{}, sched.RecoveredState{}), New(journal.JournalContents{}), time.Unix(1_700_000_000, 0)}
	n := NewChangeFeed()
	l.view.WatchChanges(n)
	spec := frameworktest.ServiceSpec("web", 1)
	l.applyEvents(sched.Subscribed{FrameworkID: "f"}, sched.SubmitJob{Spec: spec})
	ends := []struct {
		state   job.State
		message string
	}{{job.Failed, "exited with status 7"}, {job.Finished, ""}, {job.Lost, "TASK_GONE: its agent is gone"}}
	seven := 7
	codes := map[job.State]*int{job.Failed: &seven}
	var want []string
	for _, end := range ends {
		id := l.launchAttempt()
		// All of its states are recorded together.
		l.applyEvents(sched.TaskUpdate{TaskID: id, AgentID: "S1", State: job.Running, UUID: []byte{1}},
			sched.TaskUpdate{TaskID: id, AgentID: "S1", State: end.state, Message: end.message, ExitCode: codes[end.state], UUID: []byte{2}},
			sched.TaskUpdate{TaskID: id, AgentID: "S1", State: end.state, Message: end.message, ExitCode: codes[end.state], UUID: []byte{2}})
		for _, state := range []job.State{job.Waiting, job.Launching, job.Running, end.state} {
			want = append(want, fmt.Sprint(id, " ", state))
		}
		l.now = l.now.Add(time.Hour)
		l.applyEvents(sched.Tick{})
		if past, err := l.view.FindTask(id); err != nil || past.State != end.state || past.Message != end.message ||
			past.Ended.IsZero() || !cmp.Equal(past.ExitCode, codes[end.state]) {
			t.Errorf("attempt %s is stored as %+v, %v", id, past, err)
		}
	}
	changed, moves := n.TakeChanges()
	var got []string
	for _, m := range moves {
		got = append(got, fmt.Sprint(m.ID, " ", m.State))
		if i := slices.IndexFunc(ends, func(e struct {
			state   job.State
			message string
		}) bool {
			return e.state == m.State
		}); i >= 0 && (m.Message != ends[i].message || m.Hostname != "host" || m.AgentID != "S1" || m.Changed.IsZero()) {
			t.Errorf("the end of %s is reported as %+v", m.ID, m)
		}
	}
	last := want[len(want)-1]
	if len(got) == 0 || slices.Index(got, last) != len(got)-2 {
		t.Errorf("after the last end want only the next attempt, got %v", got)
	}
	if diff := cmp.Diff(want, got[:len(got)-1]); diff != "" || len(changed) != 1 || changed["web@1"].Name != "web" {
		t.Errorf("of %v (-want +got):\n%s", changed, diff)
	}
	if changed, moves := n.TakeChanges(); len(changed)+len(moves) > 0 {
		t.Errorf("changes reported twice: %v %v", changed, moves)
	}
}

// TestReturningAttemptEndsOnce: the end of a lost attempt that reappears is reported once;
// a duplicate of a known end is not.
func TestReturningAttemptEndsOnce(t *testing.T) {
	l := &stateAndModel{t, sched.New(sched.SchedulerSettings{}, sched.RecoveredState{}), New(journal.JournalContents{}), time.Unix(1_700_000_000, 0)}
	n := NewChangeFeed()
	l.view.WatchChanges(n)
	l.applyEvents(sched.Subscribed{FrameworkID: "f"}, sched.SubmitJob{Spec: frameworktest.ServiceSpec("web", 1)})
	lost := l.launchAttempt()
	l.applyEvents(sched.TaskUpdate{TaskID: lost, AgentID: "S1", State: job.Lost, Message: "TASK_UNKNOWN"})
	l.now = l.now.Add(time.Minute)
	l.applyEvents(sched.Tick{})
	failed := l.launchAttempt()
	l.applyEvents(sched.TaskUpdate{TaskID: failed, AgentID: "S1", State: job.Failed, Message: "exited with status 1"})
	n.TakeChanges()
	killed := sched.TaskUpdate{TaskID: lost, AgentID: "S1", State: job.Killed, Message: "killed"}
	l.applyEvents(killed, killed, sched.TaskUpdate{TaskID: failed, State: job.Failed}, sched.TaskUpdate{TaskID: "stranger", State: job.Failed})
	_, moves := n.TakeChanges()
	if len(moves) != 1 || moves[0].ID != lost || moves[0].State != job.Killed || moves[0].Message != "killed" || moves[0].Hostname != "host" {
		t.Errorf("reported %+v", moves)
	}

	// Both ends are recorded together.
	l.now = l.now.Add(time.Minute)
	l.applyEvents(sched.Tick{})
	again := l.launchAttempt()
	l.applyEvents(sched.TaskUpdate{TaskID: again, AgentID: "S1", State: job.Lost}, sched.TaskUpdate{
		TaskID:  again,
		AgentID: "S1",
		State:   job.Failed,
		Message: "exit 3",
	})
	var ends []job.State
	_, moves = n.TakeChanges()
	for _, m := range moves {
		if m.ID == again && !m.State.IsLive() {
			ends = append(ends, m.State)
		}
	}
	if !slices.Equal(ends, []job.State{job.Lost, job.Failed}) {
		t.Errorf("reported ends: %v", ends)
	}
}
