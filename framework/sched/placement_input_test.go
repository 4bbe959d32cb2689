package sched

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// CountReady counts as many ready tasks as a plan gets, and gives one reason for each other waiting task.
func TestCountReadyMatchesPlacementQueue(t *testing.T) {
	st, now := New(SchedulerSettings{}, RecoveredState{}), time.Unix(1_700_000_000, 0)
	rapid.Check(t, func(r *rapid.T) {
		j := &job.Job{Spec: new(testSpec("j"))}
		j.Spec.Gang = rapid.Bool().Draw(r, "gang")
		j.Spec.MaxParallel = rapid.IntRange(0, 3).Draw(r, "max_parallel")
		if rapid.Bool().Draw(r, "after") {
			j.Spec.After = []job.Dependency{{Job: "first", Met: rapid.Bool().Draw(r, "met")}}
		}
		waiting, deferred := 0, 0
		for range rapid.IntRange(1, 5).Draw(r, "tasks") {
			task := job.Task{State: rapid.SampledFrom([]job.State{job.Waiting, job.Running, job.Finished}).Draw(r, "state")}
			task.NotBefore = now.Add(time.Duration(rapid.IntRange(-1, 1).Draw(r, "pause")) * time.Second)
			if task.State == job.Waiting {
				waiting++
			}
			j.Tasks = append(j.Tasks, task)
		}
		if rapid.Bool().Draw(r, "held") {
			j.Hold = &job.Hold{}
		}
		st.now = now
		got, _ := pending.CountReady(now, j, j.Hold != nil, func(_ pending.DeferralReason, tasks int) { deferred += tasks })
		w, _ := st.appendReadyTasks(j, nil, nil)
		if want := len(w.Tasks); got != want || got+deferred != waiting {
			r.Errorf("%d may be placed and %d are deferred, want %d of %d", got, deferred, want, waiting)
		}
	})
}

// A task waits for a place from the end of its own backoff. A task of a gang waits from the end of the gang's last
// backoff, a task with dependencies from when they were met.
func TestBackoffIsNotCountedAsWaiting(t *testing.T) {
	st := New(SchedulerSettings{RetryDelay: 10 * time.Second}, RecoveredState{})
	now := time.Unix(1_700_000_000, 0)
	var waited []time.Duration
	step := func(ev Event) {
		for _, e := range []Event{ev, Cycle{}} {
			for _, op := range st.Step(now, e) {
				if a, ok := op.(AcceptOffers); ok {
					for _, l := range a.Launches {
						waited = append(waited, l.Waited)
					}
				}
			}
		}
	}
	offers := 0
	offer := func() {
		offers++
		step(OffersReceived{Offers: []Offer{{ID: string(rune('a' + offers)), AgentID: "a", GPUs: 2,
			Ports: []PortRange{{First: 31000, Last: 31009}}, Free: Amount{CPUs: 8, MemMiB: 8192}}}})
	}
	tasks := func(name string) []job.Task {
		j, _ := st.Job(name)
		return j.Tasks
	}
	pass := func(d time.Duration) { now = now.Add(d); step(Tick{}) }
	step(Subscribed{FrameworkID: "f"})
	gang := testSpec("gang")
	gang.Gang, gang.Tasks, gang.Retries, gang.Request = true, 2, 1, gpu.Request{GPUs: 1}
	next := testSpec("next")
	next.After = []job.Dependency{{Job: "gang"}}
	step(SubmitJob{Spec: gang})
	step(SubmitJob{Spec: next})
	pass(time.Second)
	offer() // the gang has waited for a second
	first := tasks("gang")
	code := 1
	step(TaskUpdate{TaskID: first[0].ID, State: job.Failed, ExitCode: &code})
	step(TaskUpdate{TaskID: first[1].ID, State: job.Killed})
	pass(10 * time.Second) // the backoff
	pass(2 * time.Second)
	offer() // both have waited for 2 s, although only one of them had a backoff
	for _, task := range tasks("gang") {
		if !task.NotBefore.IsZero() {
			t.Errorf("task %d is placed and may be tried from %s on", task.Index, task.NotBefore)
		}
		step(TaskUpdate{TaskID: task.ID, State: job.Finished})
	}
	pass(3 * time.Second)
	offer()
	want := []time.Duration{time.Second, time.Second, 2 * time.Second, 2 * time.Second, 3 * time.Second}
	if diff := cmp.Diff(want, waited); diff != "" {
		t.Errorf("waited (-want +got):\n%s", diff)
	}
}
