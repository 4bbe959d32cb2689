package sched

import (
	"testing"
	"time"

	"mesos-gpu/job"
)

// A scheduler that starts again with its clock set back does not wait for the times that it
// recorded before, but for the pause, the timeout and the unreachable timeout themselves.
func TestRecordedTimesAheadOfClockDoNotProlongWaits(t *testing.T) {
	const ahead = 200 * time.Hour
	now := time.Unix(1_700_000_000, 0)
	recorded := func(name string, state job.State) *job.Job {
		spec := testSpec(name)
		spec.Timeout = time.Hour
		return &job.Job{Spec: new(spec), Submitted: now.Add(ahead), Tasks: []job.Task{{
			ID: name + ".0.1.x", Job: name, Attempt: 2, State: state, AgentID: "a1", Ran: true, Changed: now.Add(ahead),
		}}}
	}
	waiting, running, unreachable := recorded("waiting", job.Waiting), recorded("running", job.Running), recorded("unreachable", job.Unreachable)
	waiting.Tasks[0].NotBefore, waiting.Tasks[0].AgentID = now.Add(ahead), ""
	running.Tasks[0].Started = now.Add(ahead)
	st := New(SchedulerSettings{
		UnreachableTimeout: 10 * time.Minute,
		RetryDelayMax:      5 * time.Minute,
	}, RecoveredState{FrameworkID: "f", Jobs: []*job.Job{waiting, running, unreachable}})
	st.Step(now, Subscribed{FrameworkID: "f"})
	st.Step(now, Tick{})
	taskOf := func(name string) job.Task {
		t.Helper()
		j, ok := st.Job(name)
		if !ok {
			t.Fatalf("job %s is missing", name)
		}
		return j.Tasks[0]
	}
	if got := taskOf("waiting").NotBefore; !got.Equal(now.Add(5 * time.Minute)) {
		t.Errorf("the next attempt is possible at %s, want %s", got, now.Add(5*time.Minute))
	}
	if changed := st.TakeChanges().Tasks; len(changed) != 1 || !changed[0].NotBefore.Equal(now.Add(5*time.Minute)) {
		t.Errorf("recorded %+v, want the waiting task", changed)
	}
	st.Step(now.Add(9*time.Minute), Tick{})
	if got := taskOf("unreachable").State; got != job.Unreachable {
		t.Errorf("before the unreachable timeout the task is %s", got)
	}
	st.Step(now.Add(11*time.Minute), Tick{})
	if got := taskOf("unreachable"); got.State == job.Unreachable {
		t.Error("after the unreachable timeout the task is not lost")
	}
	st.Step(now.Add(59*time.Minute), Tick{})
	if got := taskOf("running").KillReason; got != "" {
		t.Errorf("before the job's timeout the task is killed: %s", got)
	}
	st.Step(now.Add(61*time.Minute), Tick{})
	if got := taskOf("running").KillReason; got != job.KillByTimeout {
		t.Errorf("after the job's timeout the kill reason is %q", got)
	}
}
