package sched

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

func testSpec(name string) job.Spec {
	s := job.Spec{Name: name, Command: []string{"true"}}
	s.SetDefaults()
	return s
}

// TestEndedJobsAreBoundedByTasks checks that memory is bounded by tasks, and that the job that ended last is remembered even if
// it exceeds the bound.
func TestEndedJobsAreBoundedByTasks(t *testing.T) {
	st := New(SchedulerSettings{MaxEndedTasks: 5}, RecoveredState{})
	now := time.Unix(1_700_000_000, 0)
	for i, tasks := range []int{3, 2, 1, 9} {
		s := testSpec(string(rune('a' + i)))
		s.Tasks = tasks
		st.Step(now, SubmitJob{Spec: s})
		st.Step(now, KillJob{Job: s.Name})
		var kept string
		for _, j := range st.Jobs() {
			kept += j.Spec.Name
		}
		if want := []string{"a", "ab", "bc", "d"}[i]; kept != want {
			t.Errorf("after %s the State has %s, want %s", s.Name, kept, want)
		}
	}
}

// TestOldestEndedJobsAreForgottenFirst checks that the newest MaxEndedTasks stay, also after a restart.
func TestOldestEndedJobsAreForgottenFirst(t *testing.T) {
	cfg := SchedulerSettings{MaxEndedTasks: 2}
	st := New(cfg, RecoveredState{})
	now := time.Unix(1_700_000_000, 0)
	submit := func(st *State, names ...string) {
		for _, name := range names {
			now = now.Add(time.Second)
			st.Step(now, SubmitJob{Spec: testSpec(name)})
		}
	}
	end := func(st *State, names ...string) {
		for _, name := range names {
			now = now.Add(time.Second)
			st.Step(now, KillJob{Job: name})
		}
	}
	names := func(st *State) string {
		text := ""
		for _, j := range st.Jobs() {
			text += j.Spec.Name
		}
		return text
	}
	submit(st, "a", "b", "c", "d")
	end(st, "c", "a", "b")
	if got := names(st); got != "abd" {
		t.Errorf("the State has %s, want the two jobs that ended last and the live one", got)
	}
	c := st.TakeChanges()
	if diff := cmp.Diff([]job.RunID{{Name: "c", Run: 1}}, c.Removed); diff != "" || len(c.Jobs) != 3 || len(c.Tasks) != 3 {
		t.Errorf("drained removed %s, %d jobs, %d tasks", diff, len(c.Jobs), len(c.Tasks))
	}
	st = New(cfg, RecoveredState{FrameworkID: "f", Jobs: st.Jobs()})
	end(st, "d") // a ended before b
	if got := names(st); got != "bd" {
		t.Errorf("after a restart the State has %s, want bd", got)
	}
	// A run of the same name is another job. Both count, and the tasks of the forgotten one are unknown.
	old, _ := st.Job("b")
	submit(st, "b")
	end(st, "b")
	if _, ok := st.Task(old.Tasks[0].ID); ok {
		t.Error("the State still has the task of the first run")
	}
	c = st.TakeChanges()
	if diff := cmp.Diff([]job.RunID{{Name: "a", Run: 1}, {Name: "b", Run: 1}}, c.Removed); diff != "" || len(c.Jobs) != 1 {
		t.Errorf("drained %d jobs, removed %s", len(c.Jobs), diff)
	}
	if c := st.TakeChanges(); !c.IsEmpty() {
		t.Errorf("drained twice: %+v", c)
	}
}

func TestAdmitRejectsInvalidAndLiveJobs(t *testing.T) {
	st := New(SchedulerSettings{}, RecoveredState{})
	spec := testSpec("train")
	if err := st.Admit(&spec); err != nil {
		t.Fatal(err)
	}
	st.Step(time.Unix(1, 0), SubmitJob{Spec: spec})
	var live *JobNotEndedError
	if err := st.Admit(&spec); !errors.As(err, &live) || !strings.Contains(err.Error(), `job "train" is WAITING`) {
		t.Errorf("a live job's name: %v", err)
	}
	spec.Name = "a b"
	if err := st.Admit(&spec); err == nil {
		t.Error("an invalid job was admitted")
	}
	before, _ := st.Job("train")
	st.Step(time.Unix(2, 0), SubmitJob{Spec: testSpec("train")}) // ignored
	after, _ := st.Job("train")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("a job was overwritten:\n%s", diff)
	}
}

// TestJobReturnsCopy checks that changes to what State returns do not change State.
func TestJobReturnsCopy(t *testing.T) {
	st := New(SchedulerSettings{}, RecoveredState{})
	st.Step(time.Unix(1, 0), SubmitJob{Spec: testSpec("train")})
	j, _ := st.Job("train")
	j.Tasks[0].State = job.Finished
	if again, _ := st.Job("train"); again.State() != job.Waiting {
		t.Error("a copy changed the State")
	}
	if _, ok := st.Job("unknown"); ok {
		t.Error("Job returned a job that does not exist")
	}
}

// TestReconciledUpdateKeepsMessage checks that a reconciled state does not replace the message and an update from the
// agent does.
func TestReconciledUpdateKeepsMessage(t *testing.T) {
	now := time.Unix(1, 0)
	st, id := placeTask(now)
	for _, step := range []struct {
		u    TaskUpdate
		want string
	}{
		{TaskUpdate{State: job.Running, Message: "pulled image"}, "pulled image"},
		{TaskUpdate{State: job.Running, Message: "latest state", Reconciled: true}, "pulled image"},
		{TaskUpdate{State: job.Running}, "pulled image"},
		{TaskUpdate{State: job.Running, Message: "epoch 2"}, "epoch 2"},
		{TaskUpdate{State: job.Starting, Message: "late"}, "epoch 2"},
	} {
		step.u.TaskID = id
		st.Step(now, step.u)
		if task, _ := st.Task(id); task.Message != step.want {
			t.Errorf("after %+v the message is %q, want %q", step.u, task.Message, step.want)
		}
	}
}

// placeTask returns a state with one task, which is placed.
func placeTask(now time.Time) (st *State, id string) {
	st = New(SchedulerSettings{}, RecoveredState{})
	st.Step(now, Subscribed{FrameworkID: "f"})
	st.Step(now, SubmitJob{Spec: testSpec("train")})
	st.Step(now, OffersReceived{Offers: []Offer{{ID: "o", AgentID: "a", Free: Amount{CPUs: 2, MemMiB: 1000}}}})
	st.Step(now, Cycle{})
	j, _ := st.Job("train")
	return st, j.Tasks[0].ID
}

// TestHealthFailureIsRecorded checks that the last failure of a health check is recorded until a check succeeds.
func TestHealthFailureIsRecorded(t *testing.T) {
	now := time.Unix(1, 0)
	st, id := placeTask(now)
	yes, no := true, false
	first, second := &job.HealthFailure{Check: 1, Failures: 1, Cause: "refused"}, &job.HealthFailure{Check: 1, Failures: 2, Cause: "refused"}
	for i, step := range []struct {
		u    TaskUpdate
		want *job.HealthFailure
	}{
		{TaskUpdate{State: job.Running}, nil},
		{TaskUpdate{State: job.Running, Healthy: &no, HealthFailure: first}, first},
		{TaskUpdate{State: job.Running, Healthy: &no, Message: "a GPU failed"}, first},
		{TaskUpdate{State: job.Running, Healthy: &no, HealthFailure: second}, second},
		{TaskUpdate{State: job.Running, Reconciled: true}, second},
		{TaskUpdate{State: job.Running, Healthy: &yes}, nil},
		{TaskUpdate{State: job.Running, Healthy: &no}, nil},
	} {
		st.TakeChanges()
		before, _ := st.Task(id)
		step.u.TaskID = id
		st.Step(now, step.u)
		task, _ := st.Task(id)
		if diff := cmp.Diff(step.want, task.HealthFailure); diff != "" {
			t.Errorf("update %d (-want +got):\n%s", i, diff)
		}
		if changed := !cmp.Equal(before, task); changed && len(st.TakeChanges().Tasks) != 1 {
			t.Errorf("update %d changed the task, and nothing is to be recorded", i)
		}
	}
}

// TestDocumentsAreRecordedWhenTheyChange checks that an equal value is not recorded again, and that events cannot write
// documents of the scheduler.
func TestDocumentsAreRecordedWhenTheyChange(t *testing.T) {
	st := New(SchedulerSettings{}, RecoveredState{})
	for i, c := range []struct {
		key, value string
		recorded   bool
	}{
		{"note/a", "one", true}, {"note/a", "one", false}, {"note/a", "two", true}, {"note/b", "", false}, {"note/a", "", true}, {"note/a", "", false},
		{attemptPrefix + "a", "one", false}, {reservedPrefix + "a", "one", false},
	} {
		st.Step(time.Unix(1, 0), PutDocument{Key: c.key, Value: []byte(c.value)})
		changes := st.TakeChanges()
		if _, recorded := changes.Documents[c.key]; recorded != c.recorded || changes.IsEmpty() == c.recorded {
			t.Errorf("step %d recorded %v, want %t", i, changes.Documents, c.recorded)
		}
		if got := string(st.Document(c.key)); c.recorded && got != c.value || !c.recorded && IsReservedDocument(c.key) && got != "" {
			t.Errorf("after step %d %s is %q", i, c.key, got)
		}
	}
}

// TestAnswersToMaster checks that what the master repeats until it is answered is answered.
func TestAnswersToMaster(t *testing.T) {
	now := time.Unix(1, 0)
	st := New(SchedulerSettings{}, RecoveredState{})
	inverse := InverseOffersReceived{Offers: []InverseOffer{{ID: "i", AgentID: "a", Start: now.Add(time.Hour)}}}
	if ops := st.Step(now, inverse); len(ops) != 0 {
		t.Errorf("answered an inverse offer without a subscription: %v", ops)
	}
	st.Step(now, Subscribed{FrameworkID: "f"})
	for _, c := range []struct {
		event Event
		want  string
	}{
		{inverse, "accept inverse i"},
		{OperationUpdated{ID: "o", UUID: []byte{1}}, "acknowledge operation o"},
		{OperationUpdated{ID: "o"}, ""},
		{TaskUpdate{TaskID: "stray", AgentID: "a", State: job.Running, UUID: []byte{1}}, "kill stray on a, acknowledge stray"},
		{TaskUpdate{TaskID: "stray", AgentID: "a", State: job.Unreachable, UUID: []byte{1}}, "acknowledge stray"},
		{TaskUpdate{TaskID: "stray", AgentID: "a", State: job.Running}, ""}, // the KILL is repeated later
		{TaskUpdate{TaskID: "stray", AgentID: "a", State: job.Killing}, ""},
		{TaskUpdate{TaskID: "stray", AgentID: "a", State: job.Finished}, ""},
	} {
		var got []string
		for _, op := range st.Step(now, c.event) {
			got = append(got, op.String())
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%+v: got %q, want %q", c.event, text, c.want)
		}
	}
}

// TestUpdateOfUnknownStateChangesNothing checks that a state of a newer Mesos is acknowledged only.
func TestUpdateOfUnknownStateChangesNothing(t *testing.T) {
	now := time.Unix(1, 0)
	st, id := placeTask(now)
	before, _ := st.Task(id)
	st.TakeChanges()
	ops := st.Step(now, TaskUpdate{TaskID: id, AgentID: "a", Message: "new", UUID: []byte{1}})
	if after, _ := st.Task(id); len(ops) != 1 || !cmp.Equal(before, after) {
		t.Errorf("got %v, and the task is %+v", ops, after)
	}
	if c := st.TakeChanges(); len(c.Tasks) != 0 {
		t.Errorf("recorded %+v", c.Tasks)
	}
}

// TestLateEndOfLostTaskIsRecorded checks that the end of an attempt that was given up is recorded once, with what the
// agent reports, and that other updates of it are not.
func TestLateEndOfLostTaskIsRecorded(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := New(SchedulerSettings{UnreachableTimeout: time.Minute}, RecoveredState{})
	st.Step(now, Subscribed{FrameworkID: "f"})
	st.Step(now, SubmitJob{Spec: testSpec("train")})
	st.Step(now, OffersReceived{Offers: []Offer{{ID: "o", AgentID: "a", AgentURL: "http://a", Free: Amount{CPUs: 2, MemMiB: 1000}}}})
	st.Step(now, Cycle{})
	id := taskID(st, "train", 0)
	st.Step(now, TaskUpdate{TaskID: id, AgentID: "a", State: job.Running})
	st.Step(now, TaskUpdate{TaskID: id, AgentID: "a", State: job.Unreachable})
	st.Step(now.Add(time.Minute), Tick{})
	code := 3
	for i, c := range []struct {
		u    TaskUpdate
		late bool
	}{
		{TaskUpdate{State: job.Running}, false},
		{TaskUpdate{State: job.Lost}, false},
		{TaskUpdate{}, false},
		{TaskUpdate{State: job.Failed, Message: "boom", ExitCode: &code}, true},
		{TaskUpdate{State: job.Finished}, false},
	} {
		st.TakeChanges()
		c.u.TaskID, c.u.AgentID = id, "a"
		st.Step(now.Add(time.Hour), c.u)
		ends := st.TakeChanges().LateEnds
		if !c.late && len(ends) == 0 {
			continue
		}
		if !c.late || len(ends) != 1 || ends[0].State != job.Failed || ends[0].Message != "boom" || *ends[0].ExitCode != 3 {
			t.Errorf("update %d: recorded %+v", i, ends)
		}
	}
	if _, stored, _ := ParseAttempt(attemptPrefix+id, st.Document(attemptPrefix+id)); stored.State != job.Failed {
		t.Errorf("stored %+v", stored)
	}
}

func TestScheduleIsNotAdmittedAsJob(t *testing.T) {
	st := New(SchedulerSettings{}, RecoveredState{})
	spec := testSpec("nightly")
	spec.Schedule = &job.Schedule{Cron: "@daily"}
	if err := st.Admit(&spec); err == nil || !strings.Contains(err.Error(), "schedule") {
		t.Errorf("got %v", err)
	}
	st.Step(time.Unix(1, 0), SubmitJob{Spec: spec})
	if _, ok := st.Job("nightly"); ok || st.CountQueuedJobs() != 0 {
		t.Error("the schedule was queued as a job")
	}
}

// TestJobsAreForgottenInOrderOfTheirEnds checks that a recovered State forgets the job that ended first, and that a job
// that a user forgets leaves the others in their order.
func TestJobsAreForgottenInOrderOfTheirEnds(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	cfg := SchedulerSettings{MaxEndedTasks: 4}
	st := New(cfg, RecoveredState{})
	end := func(names ...string) {
		for _, name := range names {
			now = now.Add(time.Second)
			st.Step(now, KillJob{Job: name})
		}
	}
	submit := func(names ...string) {
		for _, name := range names {
			st.Step(now, SubmitJob{Spec: testSpec(name)})
		}
	}
	left := func() (names string) {
		for _, j := range st.Jobs() {
			names += j.Spec.Name
		}
		return names
	}
	submit("a", "b", "c", "d")
	end("d", "c", "b", "a")
	st = New(cfg, RecoveredState{Jobs: st.Jobs()})
	submit("e")
	end("e")
	if got := left(); got != "abce" {
		t.Errorf("after a restart, %s are left, want abce", got)
	}
	st.Step(now, ForgetJob{Job: "b"})
	submit("f", "g")
	end("f", "g")
	if got := left(); got != "aefg" {
		t.Errorf("after one was forgotten, %s are left, want aefg", got)
	}
	st.Step(now, ForgetJob{Job: "g"})
	submit("h", "i")
	end("h", "i")
	if got := left(); got != "efhi" {
		t.Errorf("after the last was forgotten, %s are left, want efhi", got)
	}
}

// TestFrameworkIDIsRecordedOnce checks that a new id is recorded, and that a subscription with the same is not.
func TestFrameworkIDIsRecordedOnce(t *testing.T) {
	st := New(SchedulerSettings{}, RecoveredState{})
	for i, c := range []struct{ id, recorded string }{{"f1", "f1"}, {"f1", ""}, {"f2", "f2"}} {
		st.Step(time.Unix(int64(i), 0), Subscribed{FrameworkID: c.id})
		if got := st.TakeChanges(); got.FrameworkID != c.recorded || got.IsEmpty() != (c.recorded == "") || st.FrameworkID() != c.id {
			t.Errorf("subscription %d recorded %q, and the id is %q", i, got.FrameworkID, st.FrameworkID())
		}
	}
}

// TestIdleTasksHaveNoDeadlines checks that the deadlines have entries only of tasks for which something is due.
func TestIdleTasksHaveNoDeadlines(t *testing.T) {
	now := time.Unix(1, 0)
	st, id := placeTask(now)
	for _, c := range []struct {
		state job.State
		want  int
	}{{job.Running, 0}, {job.Unreachable, 1}, {job.Running, 0}, {job.Failed, 0}} {
		st.Step(now, TaskUpdate{TaskID: id, AgentID: "a", State: c.state})
		if len(st.deadlines) != c.want {
			t.Errorf("a task that is %s has %d entries, want %d", c.state, len(st.deadlines), c.want)
		}
	}
}

// TestLastUpdateOfTask checks what the last update sets besides the state.
func TestLastUpdateOfTask(t *testing.T) {
	now := time.Unix(1, 0)
	no, code := false, 7
	for _, c := range []struct {
		state job.State
		code  *int // a lost task has none: whether its process exited is unknown
	}{{job.Failed, &code}, {job.Lost, nil}} {
		st := New(SchedulerSettings{MaxAttempts: 1}, RecoveredState{})
		st.Step(now, Subscribed{FrameworkID: "f"})
		st.Step(now, SubmitJob{Spec: testSpec("train")})
		st.Step(now, OffersReceived{Offers: []Offer{{ID: "o", AgentID: "a", Free: Amount{CPUs: 2, MemMiB: 1000}}}})
		st.Step(now, Cycle{})
		id := taskID(st, "train", 0)
		st.Step(now, TaskUpdate{TaskID: id, AgentID: "a", State: job.Running})
		st.Step(now, TaskUpdate{TaskID: id, AgentID: "a", State: c.state, Healthy: &no, Check: "3 of 5", Reason: "why", ExitCode: &code})
		task, _ := st.Task(id)
		if task.State != c.state || task.Healthy == nil || *task.Healthy || task.Check != "3 of 5" || task.Reason != "why" || !cmp.Equal(task.ExitCode, c.code) {
			t.Errorf("the task is %+v", task)
		}
	}
}

func TestLaunchPauseEnds(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := New(SchedulerSettings{}, RecoveredState{})
	st.launchLosses["a"] = launchLosses{count: 2, pausedUntil: now.Add(time.Second)}
	for _, c := range []struct {
		at     time.Duration
		reason string
	}{{0, "its last 2 launches were lost"}, {time.Second - 1, "its last 2 launches were lost"}, {time.Second, ""}, {time.Minute, ""}} {
		if rest, reason := st.launchPause("a", now.Add(c.at)); reason != c.reason || rest != max(0, time.Second-c.at) {
			t.Errorf("after %s the pause lasts %s: %q", c.at, rest, reason)
		}
	}
	if rest, reason := st.launchPause("b", now); rest != 0 || reason != "" {
		t.Errorf("another agent pauses for %s: %q", rest, reason)
	}
}

// TestQuotaOfUnknownRoleIsIgnored checks that an event for a role that was removed meanwhile changes nothing.
func TestQuotaOfUnknownRoleIsIgnored(t *testing.T) {
	st := New(SchedulerSettings{}, RecoveredState{})
	st.Step(time.Unix(1, 0), SetQuota{Role: "gone", Quota: quota.Quota{quota.AllTypes: 1}})
	if c := st.TakeChanges(); !c.IsEmpty() || len(st.operatorQuotas) != 0 {
		t.Errorf("recorded %v, quotas %v", c.Documents, st.operatorQuotas)
	}
}

// TestImageThatFitsNoAgent checks that a task whose image cannot run anywhere is not tried forever, and that it fails at
// once, without using its retries, where neither the driver nor the name of the agent is known, since no constraint could keep it
// away, and where what the image requires cannot be read.
func TestImageThatFitsNoAgent(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		hostname string
		mismatch ImageMismatch
		want     int
	}{{"host", MismatchGPU, maxUnstartedAttempts}, {"", MismatchGPU, 1}, {"host", MismatchAnyAgent, 1}} {
		hostname, want := c.hostname, c.want
		st := New(SchedulerSettings{}, RecoveredState{})
		st.Step(now, Subscribed{FrameworkID: "f"})
		spec := testSpec("train")
		spec.Retries = 3
		st.Step(now, SubmitJob{Spec: spec})
		attempts := 0
		for j, _ := st.Job("train"); !j.IsTerminal(); j, _ = st.Job("train") {
			attempts++
			o := Offer{ID: fmt.Sprint("o", attempts), AgentID: fmt.Sprint("a", attempts), Free: Amount{CPUs: 2, MemMiB: 1000}}
			if hostname != "" {
				o.Hostname = fmt.Sprint(hostname, attempts)
			}
			st.Step(now, OffersReceived{Offers: []Offer{o}})
			st.Step(now, Cycle{})
			st.Step(now, TaskUpdate{TaskID: taskID(st, "train", 0), AgentID: o.AgentID, State: job.Failed, Mismatch: c.mismatch})
			if attempts > 2*maxUnstartedAttempts {
				break
			}
		}
		if attempts != want {
			t.Errorf("on agents named %q, the task with an image unfit for %s was tried %d times, want %d", hostname, c.mismatch, attempts, want)
		}
	}
}
