package readmodel

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// failAttempt launches the pending attempt, makes it fail and returns its id.
func (l *stateAndModel) failAttempt(message string) string {
	l.t.Helper()
	id := l.launchAttempt()
	l.applyEvents(sched.TaskUpdate{TaskID: id, AgentID: "S1", State: job.Failed, Message: message})
	l.now = l.now.Add(time.Hour)
	l.applyEvents(sched.Tick{})
	return id
}

// attemptMessages returns the messages of the attempts shown with the job, as "message, …".
func (l *stateAndModel) attemptMessages(name string) string {
	l.t.Helper()
	view, err := l.view.JobView(name)
	if err != nil {
		l.t.Fatal(err)
	}
	var all []string
	for _, a := range view.Attempts {
		all = append(all, a.Message)
	}
	return strings.Join(all, ", ")
}

// restartScheduler replaces the State and the model by new ones with the journal's contents.
func (l *stateAndModel) restartScheduler() {
	contents := journal.JournalContents{Jobs: l.st.Jobs(), Documents: l.st.Documents()}
	l.view, l.st = New(contents), sched.New(sched.SchedulerSettings{}, sched.RecoveredState(contents))
	l.applyEvents(sched.Subscribed{FrameworkID: "f"})
}

// TestJobViewHasEarlierAttempts: a job is shown with its earlier attempts, oldest first,
// also after a failover, but without those of an earlier job with the same name. Only the
// latest attempts are stored.
func TestJobViewHasEarlierAttempts(t *testing.T) {
	l := &stateAndModel{t, sched.New(sched.SchedulerSettings{}, sched.RecoveredState{}), New(journal.JournalContents{}), time.Unix(1_700_000_000, 0)}
	l.applyEvents(sched.Subscribed{FrameworkID: "f"}, sched.SubmitJob{Spec: frameworktest.ServiceSpec("web", 1)})
	first := l.failAttempt("one")
	l.failAttempt("two")
	if got := l.attemptMessages("web"); got != "one, two" {
		t.Errorf("shown %q", got)
	}
	before, err := l.view.FindTask(first)
	if err != nil || before.State != job.Failed || before.AgentURL == "" {
		t.Errorf("the first attempt is %+v, %v", before, err)
	}
	l.restartScheduler()
	if got := l.attemptMessages("web"); got != "one, two" {
		t.Errorf("after a restart %q", got)
	}
	if after, err := l.view.FindTask(first); err != nil || !cmp.Equal(after, before) {
		t.Errorf("after a restart the first attempt is %+v, %v", after, err)
	}
	for n := range shownAttempts {
		l.failAttempt(fmt.Sprint("more ", n))
	}
	if got := l.attemptMessages("web"); !strings.HasPrefix(got, "more 0, more 1, ") || strings.Count(got, ",") != shownAttempts-1 {
		t.Errorf("of many: %q", got)
	}
	if _, err := l.view.FindTask(first); err == nil {
		t.Error("the oldest attempt is still stored")
	}

	l.applyEvents(sched.KillJob{Job: "web"}, sched.SubmitJob{Spec: frameworktest.ServiceSpec("web", 1)})
	if got := l.attemptMessages("web"); got != "" {
		t.Errorf("attempts of an earlier job with the name: %q", got)
	}
	l.failAttempt("its own")
	if got := l.attemptMessages("web"); got != "its own" {
		t.Errorf("attempts of the second job: %q", got)
	}
	if got := l.attemptMessages("web@1"); strings.Count(got, ",") != shownAttempts-1 {
		t.Errorf("attempts of the first run: %q", got)
	}
	l.applyEvents(sched.ForgetJob{Job: "web@1"})
	if n := len(l.view.attempts.tasks); n != 1 {
		t.Errorf("%d attempts are stored, want those of the second run", n)
	}
}

// TestUnreceivedLaunchIsNoAttempt: a launch that reached no agent is not shown as an
// attempt.
func TestUnreceivedLaunchIsNoAttempt(t *testing.T) {
	l := &stateAndModel{t, sched.New(sched.SchedulerSettings{}, sched.RecoveredState{}), New(journal.JournalContents{}), time.Unix(1_700_000_000, 0)}
	l.applyEvents(sched.Subscribed{FrameworkID: "f"}, sched.SubmitJob{Spec: frameworktest.ServiceSpec("web", 1)})
	j, _ := l.st.Job("web")
	l.applyEvents(sched.ScaleService{Job: "web", Tasks: 0}, sched.ScaleService{Job: "web", Tasks: 1})
	if again, _ := l.st.Job("web"); again.Tasks[0].ID == j.Tasks[0].ID {
		t.Fatalf("no other attempt: %+v", again.Tasks)
	}
	if got := l.attemptMessages("web"); got != "" || len(l.view.attempts.tasks) > 0 {
		t.Errorf("shown %q", got)
	}
}
