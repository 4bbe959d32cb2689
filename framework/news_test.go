package framework

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// life plays a State's changes into a view, each Step recorded by itself
// unless several are recorded together.
type life struct {
	t    *testing.T
	st   *sched.State
	view *view
	now  time.Time
}

func (l *life) step(events ...sched.Event) []sched.Op {
	var ops []sched.Op
	for _, ev := range events {
		l.now = l.now.Add(time.Second)
		ops = append(ops, l.st.Step(l.now, ev)...)
	}
	c := l.st.Drain()
	l.view.record(journal.Change{Removed: c.Removed, Jobs: c.Jobs, Tasks: c.Tasks, Documents: c.Documents}, c.Moves, c.Late)
	return ops
}

// launch has the attempt that waits placed, and returns its id.
func (l *life) launch() string {
	l.t.Helper()
	l.step(sched.Offers{Offers: []sched.Offer{{ID: fmt.Sprint("o", l.now.Unix()), AgentID: "S1", Hostname: "host", AgentURL: "http://10.0.0.1:5051/slave(1)", Free: sched.Amount{CPUs: 8, MemMiB: 8192}}}})
	for _, op := range l.step(sched.Cycle{}) {
		if a, ok := op.(sched.Accept); ok && len(a.Launches) == 1 {
			return a.Launches[0].TaskID
		}
	}
	l.t.Fatalf("nothing was launched: %+v %v", l.view.jobs["web"].Tasks, l.st.Reasons("web"))
	return ""
}

// TestMovesOfAttempts: each end of an attempt is told once, with what the
// attempt was, however many there are before somebody asks, and the attempt
// is remembered as it ended.
func TestMovesOfAttempts(t *testing.T) {
	l := &life{t, sched.New(sched.Config{}, sched.Past{}), newView(journal.Contents{}), time.Unix(1_700_000_000, 0)}
	n := newNews()
	l.view.watch(n)
	spec := service("web", 1)
	l.step(sched.Subscribed{FrameworkID: "f"}, sched.Submit{Spec: spec})
	ends := []struct {
		state   job.State
		message string
	}{{job.Failed, "exited with status 7"}, {job.Finished, ""}, {job.Lost, "TASK_GONE: its agent is gone"}}
	seven := 7
	codes := map[job.State]*int{job.Failed: &seven}
	var want []string
	for _, end := range ends {
		id := l.launch()
		// All that becomes of it is recorded at once.
		l.step(sched.Update{TaskID: id, AgentID: "S1", State: job.Running, UUID: []byte{1}},
			sched.Update{TaskID: id, AgentID: "S1", State: end.state, Message: end.message, ExitCode: codes[end.state], UUID: []byte{2}},
			sched.Update{TaskID: id, AgentID: "S1", State: end.state, Message: end.message, ExitCode: codes[end.state], UUID: []byte{2}})
		for _, state := range []job.State{job.Waiting, job.Launching, job.Running, end.state} {
			want = append(want, fmt.Sprint(id, " ", state))
		}
		l.now = l.now.Add(time.Hour)
		l.step(sched.Tick{})
		if past, err := l.view.Task(id); err != nil || past.State != end.state || past.Message != end.message || past.Ended.IsZero() || !cmp.Equal(past.ExitCode, codes[end.state]) {
			t.Errorf("%s is remembered as %+v, %v", id, past, err)
		}
	}
	names, moves := n.take()
	var got []string
	for _, m := range moves {
		got = append(got, fmt.Sprint(m.ID, " ", m.State))
		if i := slices.IndexFunc(ends, func(e struct {
			state   job.State
			message string
		}) bool {
			return e.state == m.State
		}); i >= 0 && (m.Message != ends[i].message || m.Hostname != "host" || m.AgentID != "S1" || m.Changed.IsZero()) {
			t.Errorf("the end of %s is told as %+v", m.ID, m)
		}
	}
	last := want[len(want)-1]
	if len(got) == 0 || slices.Index(got, last) != len(got)-2 {
		t.Errorf("the last end is not followed by the next attempt alone: %v", got)
	}
	if diff := cmp.Diff(want, got[:len(got)-1]); diff != "" || !slices.Equal(names, []string{"web"}) {
		t.Errorf("of %v (-want +got):\n%s", names, diff)
	}
	if names, moves := n.take(); len(names)+len(moves) > 0 {
		t.Errorf("told twice: %v %v", names, moves)
	}
}

// TestStrayEnds: an attempt that was given up and turns up again is heard to
// end, once; the repetition of an end that is known is not.
func TestStrayEnds(t *testing.T) {
	l := &life{t, sched.New(sched.Config{}, sched.Past{}), newView(journal.Contents{}), time.Unix(1_700_000_000, 0)}
	n := newNews()
	l.view.watch(n)
	l.step(sched.Subscribed{FrameworkID: "f"}, sched.Submit{Spec: service("web", 1)})
	lost := l.launch()
	l.step(sched.Update{TaskID: lost, AgentID: "S1", State: job.Lost, Message: "TASK_UNKNOWN"})
	l.now = l.now.Add(time.Minute)
	l.step(sched.Tick{})
	failed := l.launch()
	l.step(sched.Update{TaskID: failed, AgentID: "S1", State: job.Failed, Message: "exited with status 1"})
	n.take()
	killed := sched.Update{TaskID: lost, AgentID: "S1", State: job.Killed, Message: "killed"}
	l.step(killed, killed, sched.Update{TaskID: failed, State: job.Failed}, sched.Update{TaskID: "stranger", State: job.Failed})
	_, moves := n.take()
	if len(moves) != 1 || moves[0].ID != lost || moves[0].State != job.Killed || moves[0].Message != "killed" || moves[0].Hostname != "host" {
		t.Errorf("told %+v", moves)
	}

	// Both ends in what is recorded at once.
	l.now = l.now.Add(time.Minute)
	l.step(sched.Tick{})
	again := l.launch()
	l.step(sched.Update{TaskID: again, AgentID: "S1", State: job.Lost}, sched.Update{TaskID: again, AgentID: "S1", State: job.Failed, Message: "exit 3"})
	var ends []job.State
	_, moves = n.take()
	for _, m := range moves {
		if m.ID == again && !m.State.Live() {
			ends = append(ends, m.State)
		}
	}
	if !slices.Equal(ends, []job.State{job.Lost, job.Failed}) {
		t.Errorf("ends told: %v", ends)
	}
}
