package sched

import (
	"strings"
	"testing"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// TestDisconnectedDropsOffers checks that offers end with the subscription, and that what they had free is remembered.
func TestDisconnectedDropsOffers(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := New(SchedulerSettings{HoldOffers: time.Minute}, RecoveredState{})
	st.Step(now, Subscribed{FrameworkID: "f"})
	large := testSpec("large")
	large.Request = gpu.Request{GPUs: 2}
	st.Step(now, SubmitJob{Spec: large})
	st.Step(now, OffersReceived{Offers: []Offer{{ID: "o", AgentID: "a", GPUs: 1, Free: Amount{CPUs: 8, MemMiB: 8192}}}})
	st.Step(now, Cycle{})
	if n := st.CountHeldOffers(); n != 1 {
		t.Fatalf("%d offers are held, want 1", n)
	}
	st.Step(now, Disconnected{})
	if n := st.CountHeldOffers(); n != 0 {
		t.Errorf("%d offers are held without a subscription", n)
	}
	if len(st.lastOffered) != 1 {
		t.Errorf("%d agents with offers are remembered, want 1", len(st.lastOffered))
	}
	if text := st.PendingReasons()[firstRun("large")].Text(); !strings.Contains(text, "1 agent has GPUs, the largest has 1") {
		t.Errorf("the reason is %q", text)
	}
	st.Step(now, OffersReceived{Offers: []Offer{{ID: "late", AgentID: "a", GPUs: 2}}})
	if n := st.CountHeldOffers(); n != 0 {
		t.Errorf("%d offers are held without a subscription", n)
	}
}

// TestFinishedTaskOfGangGetsNewID checks that the finished tasks of a gang are replaced by new attempts when another
// task is tried again, and that the tasks of the old ids are unknown from then on.
func TestFinishedTaskOfGangGetsNewID(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	gang := testSpec("gang")
	gang.Gang, gang.Tasks, gang.Retries = true, 2, 1
	st := New(SchedulerSettings{}, RecoveredState{})
	st.Step(now, Subscribed{FrameworkID: "f"})
	st.Step(now, SubmitJob{Spec: gang})
	st.Step(now, OffersReceived{Offers: []Offer{{ID: "o", AgentID: "a", Free: Amount{CPUs: 8, MemMiB: 10_000}, Ports: []PortRange{{First: 31000, Last: 31001}}}}})
	st.Step(now, Cycle{})
	old, code := []string{taskID(st, "gang", 0), taskID(st, "gang", 1)}, 1
	for _, id := range old {
		st.Step(now, TaskUpdate{TaskID: id, State: job.Running})
	}
	st.Step(now, TaskUpdate{TaskID: old[0], State: job.Finished})
	st.Step(now, TaskUpdate{TaskID: old[1], State: job.Failed, ExitCode: &code})
	for i, id := range old {
		if _, ok := st.Task(id); ok {
			t.Errorf("the task %s is known although it was replaced", id)
		}
		if task, ok := st.Task(taskID(st, "gang", i)); !ok || task.State != job.Waiting || task.Attempt != 2 || !task.Ran {
			t.Errorf("task %d is %+v, want a second attempt that waits", i, task)
		}
	}
	if len(st.tasks) != 2 {
		t.Errorf("%d tasks are known, want 2", len(st.tasks))
	}
}

// TestPredictedEndCountsFromStart checks that a task's end is predicted from its start, although its state has changed
// since.
func TestPredictedEndCountsFromStart(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	train := testSpec("train")
	train.RunTime = 10 * time.Minute
	st := newPlacedState(SchedulerSettings{}, now, train)
	id := taskID(st, "train", 0)
	end := func() time.Time { return st.runningTasks()[0].Ends }
	later := now.Add(time.Minute)
	if want := now.Add(train.RunTime); end() != want {
		t.Errorf("a launched task ends at %s, want %s", end(), want)
	}
	st.Step(later, TaskUpdate{TaskID: id, State: job.Running})
	for _, state := range []job.State{job.Running, job.Unreachable, job.Running} {
		st.Step(later.Add(time.Minute), TaskUpdate{TaskID: id, State: state})
		if want := later.Add(train.RunTime); end() != want {
			t.Errorf("%s: the task ends at %s, want %s", state, end(), want)
		}
	}
	overdue := later.Add(train.RunTime + time.Minute)
	for at, want := range map[time.Time]time.Time{overdue: later.Add(train.RunTime), overdue.Add(1): {}} {
		st.Step(at, Tick{})
		if end() != want {
			t.Errorf("at %s the task ends at %s, want %s", at, end(), want)
		}
	}
}

// TestFutileReturnsExpire checks that an agent's offers may be returned to other roles again after returnOffersEvery.
func TestFutileReturnsExpire(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := New(SchedulerSettings{returnOffersEvery: time.Minute}, RecoveredState{})
	st.returned.futile = map[string]time.Time{"early": now.Add(-time.Minute), "late": now.Add(1 - time.Minute)}
	st.Step(now, Tick{})
	if got := st.newPlacementInput().FutileReturns; len(got) != 1 || !got["late"] {
		t.Errorf("futile returns are %v, want late", got)
	}
	if len(st.returned.futile) != 1 {
		t.Errorf("remembered are %v, want late", st.returned.futile)
	}
}

// TestEndedJobsAreBoundedByBytes checks that the jobs that ended first are forgotten when the texts of ended jobs
// exceed their limit.
func TestEndedJobsAreBoundedByBytes(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	specs := make([]job.Spec, 3)
	for i, name := range []string{"a", "b", "c"} {
		specs[i] = testSpec(name)
		specs[i].Command = []string{strings.Repeat("x", 1000)}
	}
	st := New(SchedulerSettings{maxEndedBytes: 2 * specs[0].TextBytes()}, RecoveredState{})
	for i, want := range []string{"a", "ab", "bc"} {
		st.Step(now, SubmitJob{Spec: specs[i]})
		st.Step(now, KillJob{Job: specs[i].Name})
		var names string
		for _, j := range st.Jobs() {
			names += j.Spec.Name
		}
		if names != want {
			t.Errorf("after %s the State has %s, want %s", specs[i].Name, names, want)
		}
	}
}
