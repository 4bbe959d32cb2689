package sched

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// runNames returns the remembered runs, oldest first.
func runNames(st *State) string {
	var names []string
	for _, j := range st.Jobs() {
		names = append(names, j.RunID().String())
	}
	return strings.Join(names, " ")
}

// TestRunsAreLimitedByRole checks that a new run removes the oldest ones, and that a run expires after its end.
func TestRunsAreLimitedByRole(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	cfg := SchedulerSettings{
		KeepRuns: 2,
		Policy:   Policy{Policy: placement.Policy{Roles: []queue.Role{{Name: "prod"}, {Name: "lab", KeepRuns: 3, KeepEnded: time.Hour}}}},
	}
	st := New(cfg, RecoveredState{})
	submitAndKill := func(name, role string) {
		now = now.Add(time.Minute)
		spec := testSpec(name)
		spec.Role = role
		st.Step(now, SubmitJob{Spec: spec})
		st.Step(now, KillJob{Job: name})
	}
	for range 4 {
		submitAndKill("a", "prod")
		submitAndKill("b", "lab")
	}
	if got := runNames(st); got != "b@2 a@3 b@3 a@4 b@4" {
		t.Errorf("the State has %s", got)
	}
	removed := st.TakeChanges().Removed
	if diff := cmp.Diff([]job.RunID{{Name: "a", Run: 1}, {Name: "a", Run: 2}, {Name: "b", Run: 1}}, removed); diff != "" {
		t.Errorf("removed: %s", diff)
	}
	// The time is counted from the end, also after a restart.
	st = New(cfg, RecoveredState{Jobs: st.Jobs()})
	now = now.Add(time.Hour - 3*time.Minute)
	st.Step(now, Tick{})
	if got := runNames(st); got != "a@3 b@3 a@4 b@4" {
		t.Errorf("after an hour the State has %s", got)
	}
	st.Step(now.Add(24*time.Hour), Tick{})
	if got := runNames(st); got != "a@3 a@4" {
		t.Errorf("after a day the State has %s", got)
	}
}

// TestRunsCountTowardsEndedJobs checks that the limits of ended jobs include all runs.
func TestRunsCountTowardsEndedJobs(t *testing.T) {
	st := New(SchedulerSettings{MaxEndedTasks: 3, KeepRuns: 100}, RecoveredState{})
	for i := range 6 {
		now := time.Unix(1_700_000_000+int64(i), 0)
		st.Step(now, SubmitJob{Spec: testSpec("a")})
		st.Step(now, KillJob{Job: "a"})
	}
	if got := runNames(st); got != "a@4 a@5 a@6" {
		t.Errorf("the State has %s", got)
	}
}

// TestRunsAreDistinct checks that tasks, attempts and client keys of two runs do not mix, even if the clock stands still.
func TestRunsAreDistinct(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := New(SchedulerSettings{}, RecoveredState{})
	st.Step(now, Subscribed{FrameworkID: "f"})
	submit := func(key string) {
		spec := testSpec("a")
		spec.Retries, spec.ClientKey = 1, &job.ClientKey{Key: key}
		st.Step(now, SubmitJob{Spec: spec})
		st.Step(now, OffersReceived{Offers: []Offer{{ID: fmt.Sprint("o", key), AgentID: "a", AgentURL: "http://a", Free: Amount{CPUs: 9, MemMiB: 9999}}}})
		st.Step(now, Cycle{})
		j, _ := st.Job("a")
		st.Step(now, TaskUpdate{TaskID: j.Tasks[0].ID, AgentID: "a", State: job.Failed, UUID: []byte{1}})
		st.Step(now, KillJob{Job: "a"})
	}
	submit("first")
	submit("second")
	ids := map[string]bool{}
	for run, key := range []string{"first", "second"} {
		id := job.RunID{Name: "a", Run: run + 1}
		j, ok := st.JobByClientKey(&job.Spec{ClientKey: &job.ClientKey{Key: key}})
		if !ok || j.RunID() != id {
			t.Fatalf("the key %s is of %v", key, j)
		}
		if got := st.endedAttempts.byJob[id]; got == nil || len(got.ids) != 1 || ids[got.ids[0]] || ids[j.Tasks[0].ID] {
			t.Errorf("%s has the attempts %+v and the task %s", id, got, j.Tasks[0].ID)
		} else {
			ids[got.ids[0]], ids[j.Tasks[0].ID] = true, true
		}
		if task, ok := st.Task(j.Tasks[0].ID); !ok || task.RunID() != id {
			t.Errorf("task %s is of run %v", j.Tasks[0].ID, task.RunID())
		}
	}
	st.Step(now, ForgetJob{Job: "a@1"})
	if n := len(st.documents[attemptPrefix]); n != 1 || st.endedAttempts.byJob[job.RunID{Name: "a", Run: 2}] == nil {
		t.Errorf("%d attempts are stored after the first run is forgotten", n)
	}
	st = New(SchedulerSettings{}, RecoveredState{Jobs: st.Jobs(), Documents: st.Documents()})
	if n := len(st.documents[attemptPrefix]); n != 1 || st.endedAttempts.byJob[job.RunID{Name: "a", Run: 2}] == nil {
		t.Errorf("%d attempts are stored after a restart", n)
	}
}

// TestRetryRunKeepsFinishedTasks checks that only the tasks of a run that did not finish run again, also if that run is
// such a run itself, and which runs may not be retried.
func TestRetryRunKeepsFinishedTasks(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := New(SchedulerSettings{KeepRuns: 2}, RecoveredState{})
	spec := testSpec("a")
	spec.Tasks = 3
	endRun := func(states ...job.State) *job.Job {
		j, _ := st.Job("a")
		waiting := 0
		for i := range j.Tasks {
			if j.Tasks[i].State == job.Waiting {
				waiting++
			}
		}
		if waiting != len(states) {
			t.Fatalf("%d tasks wait, want %d: %+v", waiting, len(states), j.Tasks)
		}
		st.Step(now, OffersReceived{Offers: []Offer{{ID: j.RunID().String(), AgentID: "a", AgentURL: "http://a", Free: Amount{CPUs: 9, MemMiB: 9999}}}})
		st.Step(now, Cycle{})
		for i := range j.Tasks {
			if j.Tasks[i].State == job.Waiting {
				code := 0
				st.Step(now, TaskUpdate{TaskID: j.Tasks[i].ID, AgentID: "a", State: states[0], ExitCode: &code, UUID: []byte{1}})
				states = states[1:]
			}
		}
		j, _ = st.Job("a")
		return j
	}
	retry := func(run int) { st.Step(now, SubmitJob{Spec: spec, RetryRun: job.RunID{Name: "a", Run: run}}) }
	st.Step(now, Subscribed{FrameworkID: "f"})
	st.Step(now, SubmitJob{Spec: spec})
	first := endRun(job.Finished, job.Failed, job.Failed)
	retry(1)
	if err := st.AdmitRetry(job.RunID{Name: "a", Run: 2}); err == nil || !strings.Contains(err.Error(), `job "a" is WAITING`) {
		t.Errorf("a run that has not ended: %v", err)
	}
	endRun(job.Finished, job.Failed)
	retry(2) // the first run is forgotten: two are kept
	third := endRun(job.Finished)
	var got []string
	for _, task := range third.Tasks {
		got = append(got, fmt.Sprint(task.State, " ", task.Message, " ", task.AgentURL, " ", task.SandboxID() == task.ID, " ", *task.ExitCode))
	}
	want := []string{"FINISHED finished in run 1 http://a false 0", "FINISHED finished in run 2 http://a false 0", "FINISHED  http://a true 0"}
	if diff := cmp.Diff(want, got); diff != "" || third.Tasks[0].SandboxID() != first.Tasks[0].ID {
		t.Errorf("the third run has %+v\n%s", third.Tasks, diff)
	}
	if n := st.liveTasks; n.Total() != 0 {
		t.Errorf("%d tasks count as live", n.Total())
	}
	retry(3) // ignored
	if got := runNames(st); got != "a@2 a@3" {
		t.Errorf("the State has %s", got)
	}
	for run, want := range map[int]string{3: `every task of job "a@3" has finished`, 9: `there is no job "a@9"`} {
		if err := st.AdmitRetry(job.RunID{Name: "a", Run: run}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run %d: %v", run, err)
		}
	}
	for name, set := range map[string]func(*job.Spec){"gang": func(s *job.Spec) { s.Gang = true }, "service": func(s *job.Spec) { s.Service = &job.Service{} }} {
		s := testSpec(name)
		s.Tasks = 2
		set(&s)
		st.Step(now, SubmitJob{Spec: s})
		st.Step(now, KillJob{Job: name})
		if err := st.AdmitRetry(job.RunID{Name: name, Run: 1}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("job \"%s@1\" is a %s", name, name)) {
			t.Errorf("a %s: %v", name, err)
		}
	}
}
