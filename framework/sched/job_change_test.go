package sched

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
)

// changedJob is a State with one job, whose changes a test makes.
type changedJob struct {
	st *State
	// now is the time of the last event, start that of the first change.
	now, start time.Time
}

// newChangedJob places as many tasks of the job as possible. Those that are placed run.
func newChangedJob(spec job.Spec) *changedJob {
	c := &changedJob{now: time.Unix(1_700_000_000, 0)}
	c.st = newPlacedState(SchedulerSettings{}, c.now, spec)
	j, _ := c.st.Job(spec.Name)
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.State.IsPlaced() {
			c.st.Step(c.now, TaskUpdate{TaskID: t.ID, AgentID: t.AgentID, State: job.Running})
		}
	}
	c.st.TakeChanges()
	c.start = c.now
	return c
}

// step applies an event a second after the one before, and returns what changed.
func (c *changedJob) step(e Event) (changed []*job.Job, ops []Operation) {
	c.now = c.now.Add(time.Second)
	ops = c.st.Step(c.now, e)
	return c.st.TakeChanges().Jobs, ops
}

// history returns the changes of a job, one a line: seconds, state and message.
func (c *changedJob) history(name string) string {
	var lines strings.Builder
	j, _ := c.st.Job(name)
	for i := range j.Changes {
		one := &j.Changes[i]
		fmt.Fprintf(&lines, "%d %s %s\n", int(one.Time.Sub(c.start).Seconds()), one.State, one.Message())
	}
	return lines.String()
}

// TestChangesAreRecorded checks that edits, holds, releases and requeues of waiting and running jobs are recorded with who made
// them, and with the state of the job. A request that changes nothing is not recorded. The changes outlive the scheduler.
func TestChangesAreRecorded(t *testing.T) {
	single, gang, array, large := testSpec("single"), testSpec("gang"), testSpec("array"), testSpec("large")
	gang.Tasks, gang.Gang = 2, true
	array.Tasks, array.MaxParallel = 3, 1
	large.CPUs = 1000 // waits
	for _, spec := range []job.Spec{single, gang, array, large} {
		c := newChangedJob(spec)
		name := spec.Name
		j, _ := c.st.Job(name)
		edited, state := *j.Spec, j.State()
		edited.Priority = 5
		for _, e := range []Event{
			EditJob{Job: name, Spec: edited, By: "ada", Keys: "priority 0 to 5"},
			HoldJob{Job: name, By: "ada", Reason: "wrong data"},
			ReleaseJob{Job: name, By: "bob"},
		} {
			if changed, _ := c.step(e); len(changed) != 1 {
				t.Errorf("%s: %T recorded %v", name, e, changed)
			}
			if changed, _ := c.step(e); len(changed) != 0 {
				t.Errorf("%s: %T again recorded %v", name, e, changed)
			}
		}
		want := fmt.Sprintf("1 %s edited by ada: priority 0 to 5\n3 %[1]s held by ada: wrong data\n5 %[1]s released by bob\n", state)
		c.step(RequeueJob{Job: name, By: "eve", Reason: "a bug"})
		c.step(RequeueJob{Job: name, By: "eve", Reason: "a bug"})
		if name != "large" { // it has nothing to stop
			want += "7 KILLING queued again by eve: a bug\n"
		}
		if diff := cmp.Diff(want, c.history(name)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		c.st = New(c.st.cfg, RecoveredState{FrameworkID: "f", Jobs: c.st.Jobs()})
		c.step(HoldJob{Job: name, By: "ops"})
		if got := c.history(name); !strings.HasPrefix(got, want+"9 ") || !strings.HasSuffix(got, " held by ops\n") {
			t.Errorf("%s: after a failover the history is\n%s", name, got)
		}
	}
}

// TestRequeueWithHoldRecordsBoth checks the order of the two changes of one request, and that the tasks have the same message.
func TestRequeueWithHoldRecordsBoth(t *testing.T) {
	c := newChangedJob(testSpec("train"))
	c.step(RequeueJob{Job: "train", By: "ada", Reason: "a bug", Hold: true})
	if diff := cmp.Diff("1 RUNNING held by ada: a bug\n1 KILLING queued again by ada: a bug\n", c.history("train")); diff != "" {
		t.Error(diff)
	}
	if task, _ := c.st.Task(taskID(c.st, "train", 0)); task.Message != "queued again by ada: a bug" || task.KilledBy != "ada" {
		t.Errorf("the task is %+v", task)
	}
}

// TestServiceChangesAreRecorded checks that an applied version and the number of tasks that it sets are two changes, of the
// same user. A service that runs is RUNNING.
func TestServiceChangesAreRecorded(t *testing.T) {
	spec := testService("web", 1)
	c := newChangedJob(spec)
	c.step(ScaleService{Job: "web", Tasks: 2, By: "ada"})
	next := spec
	next.Image, next.Tasks = "web:2", 3
	c.step(UpdateService{Job: "web", Spec: next, By: "ada", Keys: "image none to web:2"})
	if changed, _ := c.step(UpdateService{Job: "web", Spec: next, By: "ada"}); len(changed) != 0 {
		t.Errorf("the same version again recorded %v", changed)
	}
	c.step(ScaleService{Job: "web", Tasks: 0, By: "bob"})
	c.step(ScaleService{Job: "web", Tasks: 1, Reason: "load"})
	want := `1 RUNNING scaled from 1 to 2 tasks by ada
2 RUNNING version 1 applied by ada: image none to web:2
2 RUNNING scaled from 2 to 3 tasks by ada
4 KILLING scaled from 3 to 0 tasks by bob
5 KILLING scaled from 0 to 1 task: load
`
	if diff := cmp.Diff(want, c.history("web")); diff != "" {
		t.Error(diff)
	}
}

// TestRetiredTasksAreScalings checks that a service whose tasks are stopped for good has one change for all of them, and none
// if the tasks are replaced or have ended.
func TestRetiredTasksAreScalings(t *testing.T) {
	c := newChangedJob(testService("web", 3))
	first, second, third := taskID(c.st, "web", 0), taskID(c.st, "web", 1), taskID(c.st, "web", 2)
	c.step(StopTasks{TaskIDs: []string{third}, By: "ada"})
	c.step(StopTasks{TaskIDs: []string{first, second}, Retire: true, By: "bob"})
	c.step(StopTasks{TaskIDs: []string{first, "unknown"}, Retire: true, By: "bob"})
	if diff := cmp.Diff("2 KILLING scaled from 3 to 1 task by bob\n", c.history("web")); diff != "" {
		t.Error(diff)
	}
}

// TestHoldsOfUsersAreNoChangesOfJobs checks that a hold of many jobs is not recorded with each of them.
func TestHoldsOfUsersAreNoChangesOfJobs(t *testing.T) {
	spec := testSpec("train")
	spec.Owner = "ada"
	c := newChangedJob(spec)
	target := job.HoldTarget{Kind: job.HeldUser, Name: "ada"}
	c.step(HoldJobsOf{Target: target, By: "ops", Drain: true})
	c.step(ReleaseJobsOf{Target: target})
	if task, _ := c.st.Task(taskID(c.st, "train", 0)); task.KilledBy != "ops" {
		t.Errorf("the task is %+v", task)
	}
	if got := c.history("train"); got != "" {
		t.Errorf("the job has the changes\n%s", got)
	}
}
