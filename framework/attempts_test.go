package framework

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// fail has the attempt that waits be placed and fail, and returns its id.
func (l *life) fail(message string) string {
	l.t.Helper()
	id := l.launch()
	l.step(sched.Update{TaskID: id, AgentID: "S1", State: job.Failed, Message: message})
	l.now = l.now.Add(time.Hour)
	l.step(sched.Tick{})
	return id
}

// attempts are those that are shown with the job, as "message, …".
func (l *life) attempts(name string) string {
	l.t.Helper()
	view, err := l.view.Job(name)
	if err != nil {
		l.t.Fatal(err)
	}
	var all []string
	for _, a := range view.Attempts {
		all = append(all, a.Message)
	}
	return strings.Join(all, ", ")
}

// restart goes on from what a journal has: another scheduler with its view.
func (l *life) restart() {
	contents := journal.Contents{Jobs: l.st.Jobs(), Documents: l.st.Documents()}
	l.view, l.st = newView(contents), sched.New(sched.Config{}, sched.Past(contents))
	l.step(sched.Subscribed{FrameworkID: "f"})
}

// TestAttemptsAreShown: a job is shown with its earlier attempts, oldest first,
// also by the scheduler that takes over, but not with those of another job that
// had its name; the oldest of many are forgotten.
func TestAttemptsAreShown(t *testing.T) {
	l := &life{t, sched.New(sched.Config{}, sched.Past{}), newView(journal.Contents{}), time.Unix(1_700_000_000, 0)}
	l.step(sched.Subscribed{FrameworkID: "f"}, sched.Submit{Spec: service("web", 1)})
	first := l.fail("one")
	l.fail("two")
	if got := l.attempts("web"); got != "one, two" {
		t.Errorf("shown %q", got)
	}
	before, err := l.view.Task(first)
	if err != nil || before.State != job.Failed || before.AgentURL == "" {
		t.Errorf("the first is %+v, %v", before, err)
	}
	l.restart()
	if got := l.attempts("web"); got != "one, two" {
		t.Errorf("after a restart %q", got)
	}
	if after, err := l.view.Task(first); err != nil || !cmp.Equal(after, before) {
		t.Errorf("after a restart the first is %+v, %v", after, err)
	}
	for n := range shownAttempts {
		l.fail(fmt.Sprint("more ", n))
	}
	if got := l.attempts("web"); !strings.HasPrefix(got, "more 0, more 1, ") || strings.Count(got, ",") != shownAttempts-1 {
		t.Errorf("of many: %q", got)
	}
	if _, err := l.view.Task(first); err == nil {
		t.Error("the oldest is remembered for ever")
	}

	l.step(sched.Kill{Job: "web"}, sched.Submit{Spec: service("web", 1)})
	if got := l.attempts("web"); got != "" {
		t.Errorf("of another job of its name: %q", got)
	}
	l.fail("its own")
	if got := l.attempts("web"); got != "its own" {
		t.Errorf("of the second job: %q", got)
	}
	if n := len(l.view.past.tasks); n != 1 {
		t.Errorf("%d attempts are remembered, want the second job's", n)
	}
}

// TestLaunchesThatWereLost: of an attempt that got to no agent there is nothing
// to be read.
func TestLaunchesThatWereLost(t *testing.T) {
	l := &life{t, sched.New(sched.Config{}, sched.Past{}), newView(journal.Contents{}), time.Unix(1_700_000_000, 0)}
	l.step(sched.Subscribed{FrameworkID: "f"}, sched.Submit{Spec: service("web", 1)})
	j, _ := l.st.Job("web")
	l.step(sched.Scale{Job: "web", Tasks: 0}, sched.Scale{Job: "web", Tasks: 1})
	if again, _ := l.st.Job("web"); again.Tasks[0].ID == j.Tasks[0].ID {
		t.Fatalf("no other attempt: %+v", again.Tasks)
	}
	if got := l.attempts("web"); got != "" || len(l.view.past.tasks) > 0 {
		t.Errorf("shown %q", got)
	}
}
