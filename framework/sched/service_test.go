package sched

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

func testService(name string, tasks int) job.Spec {
	s := testSpec(name)
	s.Tasks, s.Service = tasks, &job.Service{}
	s.SetDefaults()
	return s
}

// newPlacedState is a State with these jobs, as many of whose tasks as possible are launched on one agent.
func newPlacedState(cfg SchedulerSettings, now time.Time, specs ...job.Spec) *State {
	st := New(cfg, RecoveredState{})
	st.Step(now, Subscribed{FrameworkID: "f"})
	for _, s := range specs {
		st.Step(now, SubmitJob{Spec: s})
	}
	st.Step(now, OffersReceived{Offers: []Offer{{ID: "o", AgentID: "a", Free: Amount{CPUs: 8, MemMiB: 10_000}, Ports: []PortRange{{First: 31000, Last: 31099}}}}})
	st.Step(now, Cycle{})
	st.TakeChanges()
	return st
}

func taskID(st *State, name string, index int) string {
	j, _ := st.Job(name)
	return j.Tasks[index].ID
}

func TestAdmitScale(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	batch, ended, killed := testSpec("batch"), testService("ended", 1), testService("killed", 1)
	cfg := SchedulerSettings{MaxLiveTasks: 10, LimitShare: 100}
	for _, c := range []struct {
		name  string
		tasks int
		want  string
	}{
		{"none", 1, `there is no job "none"`},
		{"batch", 2, `job "batch" is not a service`},
		{"ended", 2, `service "ended" has ended`},
		{"killed", 2, `service "killed" is being killed`},
		{"web", -1, "tasks: -1 is not between 0 and 10000"},
		{"web", job.MaxTasks + 1, "tasks: 10001 is not between 0 and 10000"},
		{"web", 0, ""},
		{"web", 4, ""},
		{"web", 8, ""},
		{"web", 9, "tasks"},
	} {
		st := newPlacedState(cfg, now, batch, killed, testService("web", 4))
		st.Step(now, KillJob{Job: "killed"})
		st.Step(now, SubmitJob{Spec: ended})
		st.Step(now, KillJob{Job: "ended"})
		err := st.AdmitScale(c.name, c.tasks)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to %d tasks: got %v, want %q", c.name, c.tasks, err, c.want)
		}
	}
	large := newPlacedState(SchedulerSettings{}, now, testService("web", 1))
	if err := large.AdmitScale("web", job.MaxTasks); err != nil {
		t.Errorf("the largest number of tasks: %v", err)
	}
}

// Scaling up adds tasks to the job, and is recorded. Tasks that were retired by scaling down return first, as new
// attempts.
func TestScalingIsRecorded(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := newPlacedState(SchedulerSettings{}, now, testService("web", 1))
	st.Step(now, ScaleService{Job: "web", Tasks: 3})
	if j, _ := st.Job("web"); j.Spec.Tasks != 3 || len(j.Tasks) != 3 || j.WantedTasks() != 3 {
		t.Errorf("the job has %d tasks and wants %d of %d", j.Spec.Tasks, j.WantedTasks(), len(j.Tasks))
	}
	if c := st.TakeChanges(); len(c.Jobs) != 1 || c.Jobs[0].Spec.Tasks != 3 {
		t.Errorf("recorded %+v", c.Jobs)
	}
	retired := taskID(st, "web", 2)
	st.Step(now, ScaleService{Job: "web", Tasks: 2})
	if old, _ := st.Task(retired); old.State != job.Killed {
		t.Errorf("the retired task is %s", old.State)
	}
	st.Step(now, ScaleService{Job: "web", Tasks: 3})
	if j, _ := st.Job("web"); j.WantedTasks() != 3 || len(j.Tasks) != 3 || j.Tasks[2].State != job.Waiting || j.Tasks[2].Attempt != 2 {
		t.Errorf("the task that returned is %+v", j.Tasks[2])
	}
	if _, known := st.Task(retired); known {
		t.Error("the attempt that was retired is still known")
	}
}

// A task that is ending because its service was scaled down restarts once it has ended, if the service is scaled up
// again.
func TestScalingUpKeepsTaskThatIsEnding(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := newPlacedState(SchedulerSettings{}, now, testService("web", 2))
	st.Step(now, ScaleService{Job: "web", Tasks: 1})
	st.TakeChanges()
	st.Step(now, ScaleService{Job: "web", Tasks: 2})
	j, _ := st.Job("web")
	at := slices.IndexFunc(j.Tasks, func(t job.Task) bool { return t.KillReason == job.KillByReplacement })
	if at < 0 || len(j.Tasks) != 2 || j.WantedTasks() != 2 {
		t.Fatalf("tasks are %+v", j.Tasks)
	}
	if c := st.TakeChanges(); len(c.Tasks) != 1 || c.Tasks[0].ID != j.Tasks[at].ID {
		t.Errorf("recorded %+v", c.Tasks)
	}
	st.Step(now, TaskUpdate{TaskID: j.Tasks[at].ID, State: job.Killed})
	if j, _ := st.Job("web"); j.Tasks[at].State != job.Waiting || j.Tasks[at].Attempt != 2 {
		t.Errorf("the task is now %+v", j.Tasks[at])
	}
}

// Tasks that are unknown or have ended are not stopped. A job all of whose tasks were stopped has ended.
func TestStopTasks(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := New(SchedulerSettings{}, RecoveredState{})
	spec := testSpec("batch")
	spec.Tasks = 2
	st.Step(now, SubmitJob{Spec: spec})
	first, second := taskID(st, "batch", 0), taskID(st, "batch", 1)
	st.Step(now, StopTasks{TaskIDs: []string{"unknown", first}})
	ended, _ := st.Task(first)
	if ended.State != job.Killed || ended.Message != "stopped" || st.CountQueuedJobs() != 1 {
		t.Errorf("after the first stop: %s %q, %d jobs wait", ended.State, ended.Message, st.CountQueuedJobs())
	}
	st.TakeChanges()
	st.Step(now.Add(time.Second), StopTasks{TaskIDs: []string{first}})
	if c := st.TakeChanges(); !c.IsEmpty() {
		t.Errorf("a second stop of one task changed %+v", c)
	}
	st.Step(now, StopTasks{TaskIDs: []string{second}})
	if j, _ := st.Job("batch"); st.CountQueuedJobs() != 0 || !j.IsTerminal() {
		t.Errorf("after both stops %d jobs wait, and the job is %s", st.CountQueuedJobs(), j.State())
	}
}

// The end of a pause lets a waiting task start at once, with its failures forgotten, and is recorded. It does not
// change other tasks.
func TestEndBackoff(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	spec := testSpec("batch")
	spec.Tasks, spec.Retries = 2, 9
	st := newPlacedState(SchedulerSettings{RetryDelay: time.Hour}, now, spec)
	running := taskID(st, "batch", 1)
	st.Step(now, TaskUpdate{TaskID: running, State: job.Running})
	st.Step(now, TaskUpdate{TaskID: taskID(st, "batch", 0), State: job.Failed})
	id := taskID(st, "batch", 0)
	before, _ := st.Task(id)
	if before.State != job.Waiting || before.Failures == 0 || !before.NotBefore.After(now) {
		t.Fatalf("the task is %+v, want one that pauses", before)
	}
	st.Step(now, Tick{})
	st.TakeChanges()
	ops := st.Step(now.Add(time.Minute), EndBackoff{TaskIDs: []string{"unknown", running, id}})
	after, _ := st.Task(id)
	if after.Failures != 0 || after.NotBefore.After(now.Add(time.Minute)) {
		t.Errorf("the task is %+v, want one that may start", after)
	}
	if c := st.TakeChanges(); len(c.Tasks) != 1 || c.Tasks[0].ID != id {
		t.Errorf("recorded %+v, want the waiting task", c.Tasks)
	}
	if !slices.ContainsFunc(ops, func(op Operation) bool { _, revives := op.(ReviveOffers); return revives }) {
		t.Errorf("operations are %v, want offers to be requested", ops)
	}
}

// A job is found by the client key of its owner as long as it is remembered. A later job with the same key replaces it.
func TestJobByClientKey(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := New(SchedulerSettings{}, RecoveredState{})
	keyed := func(name, owner, key string) job.Spec {
		s := testSpec(name)
		s.Owner, s.ClientKey = owner, &job.ClientKey{Key: key}
		return s
	}
	find := func(st *State, owner, key string) string {
		spec := keyed("", owner, key)
		found, ok := st.JobByClientKey(&spec)
		if !ok {
			return ""
		}
		return found.Spec.Name
	}
	for _, s := range []job.Spec{keyed("first", "ann", "k"), keyed("other", "bob", "k"), keyed("second", "ann", "k2")} {
		st.Step(now, SubmitJob{Spec: s})
	}
	check := func(when string, st *State, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, []string{find(st, "ann", "k"), find(st, "bob", "k"), find(st, "ann", "k2"), find(st, "bob", "k2")}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("at first", st, "first", "other", "second", "")
	check("after a restart", New(SchedulerSettings{}, RecoveredState{Jobs: st.Jobs()}), "first", "other", "second", "")
	plain := testSpec("first")
	if _, ok := st.JobByClientKey(&plain); ok {
		t.Error("a job without a key is found")
	}
	st.Step(now, SubmitJob{Spec: keyed("third", "ann", "k")})
	check("after another job with a key", st, "third", "other", "second", "")
	for _, name := range []string{"first", "other"} {
		st.Step(now, KillJob{Job: name})
		st.Step(now, ForgetJob{Job: name})
	}
	check("after two jobs were forgotten", st, "third", "", "second", "")
}

// Roles report their settings with the defaults filled in.
func TestRoleUsagesHaveDefaults(t *testing.T) {
	cfg := SchedulerSettings{}
	cfg.Policy.Roles = []queue.Role{{Name: "a"}, {Name: "b", Weight: 2, Order: queue.ShortestFirst, FitPolicy: "spread"}}
	got := New(cfg, RecoveredState{}).RoleUsages()
	if r := got[0]; r.Weight != 1 || r.Order != queue.OldestFirst || r.FitPolicy != "headroom" {
		t.Errorf("defaults are %+v", r)
	}
	if r := got[1]; r.Weight != 2 || r.Order != queue.ShortestFirst || r.FitPolicy != "spread" {
		t.Errorf("settings are %+v", r)
	}
}

// A service may set how long its agents may be unreachable.
func TestUnreachableTimeoutOfService(t *testing.T) {
	st := New(SchedulerSettings{UnreachableTimeout: time.Hour}, RecoveredState{FrameworkID: "f"})
	own, batch := testService("own", 1), testSpec("batch")
	own.Service.ReplaceAfter = time.Minute
	plain := testService("plain", 1)
	plain.Service.ReplaceAfter = 0
	for spec, want := range map[*job.Spec]time.Duration{&own: time.Minute, &plain: time.Hour, &batch: time.Hour} {
		if got := st.unreachableTimeout(spec); got != want {
			t.Errorf("%s: %s, want %s", spec.Name, got, want)
		}
	}
	if st.FrameworkID() != "f" {
		t.Errorf("framework id is %q", st.FrameworkID())
	}
}

// The documents of all users together are limited. A change that makes them smaller is admitted even beyond the limit.
func TestDocumentsAreLimitedTogether(t *testing.T) {
	st := New(SchedulerSettings{}, RecoveredState{})
	largest := make([]byte, maxDocumentBytes)
	for i := range maxTotalDocumentBytes / maxDocumentBytes {
		st.restoreDocument("d/"+string(rune('a'+i)), largest)
	}
	for name, c := range map[string]struct {
		documents map[string][]byte
		admitted  bool
	}{
		"one byte more":            {map[string][]byte{"new": {1}}, false},
		"as many bytes":            {map[string][]byte{"d/a": largest}, true},
		"fewer bytes":              {map[string][]byte{"d/a": {1}}, true},
		"larger than one may be":   {map[string][]byte{"d/a": make([]byte, maxDocumentBytes+1)}, false},
		"key of the scheduler":     {map[string][]byte{CountersKey: nil}, false},
		"key of an ended attempt":  {map[string][]byte{attemptPrefix + "x": nil}, false},
		"no key":                   {map[string][]byte{"": nil}, false},
		"longest key":              {map[string][]byte{strings.Repeat("k", maxDocumentKeyBytes): nil}, true},
		"longer key":               {map[string][]byte{strings.Repeat("k", maxDocumentKeyBytes+1): nil}, false},
		"replacement of the bytes": {map[string][]byte{"d/a": nil, "new": largest}, true},
	} {
		if err := st.AdmitDocuments(c.documents); (err == nil) != c.admitted {
			t.Errorf("%s: got %v", name, err)
		}
	}
	st.restoreDocument("over", largest)
	if err := st.AdmitDocuments(map[string][]byte{"d/a": {1}}); err != nil {
		t.Errorf("a smaller document beyond the limit: %v", err)
	}
	st.Step(time.Unix(1, 0), CountersChanged{Value: []byte("7")})
	if got := string(st.Document(CountersKey)); got != "7" {
		t.Errorf("counters are %q", got)
	}
}

// An attempt that was given up as lost gets the end that is reported later.
func TestLateEndOfLostAttempt(t *testing.T) {
	st := New(SchedulerSettings{}, RecoveredState{})
	j := &job.Job{Spec: &job.Spec{}, Tasks: make([]job.Task, 1)}
	lost := job.Task{ID: "a.0.1", Job: "a", Attempt: 1, State: job.Lost, AgentID: "http://agent"}
	st.endedAttempts.keep(lost, j)
	stored := func() job.Task {
		id, task, ok := ParseAttempt(attemptPrefix+lost.ID, st.Document(attemptPrefix+lost.ID))
		if !ok || id != lost.ID {
			t.Errorf("stored as %q, %t", id, ok)
		}
		return task
	}
	for _, state := range []job.State{"", job.Lost, job.Running} {
		if _, late := st.endedAttempts.recordLateEnd(TaskUpdate{TaskID: lost.ID, State: state}); late || stored().State != job.Lost {
			t.Errorf("%q ended the attempt", state)
		}
	}
	code := 3
	end := TaskUpdate{TaskID: lost.ID, State: job.Failed, Message: "exit 3", ExitCode: &code}
	if got, late := st.endedAttempts.recordLateEnd(end); !late || got.State != job.Failed || stored().State != job.Failed ||
		stored().Message != "exit 3" || *stored().ExitCode != 3 {
		t.Errorf("the end was recorded as %+v, %t", stored(), late)
	}
	if _, late := st.endedAttempts.recordLateEnd(end); late {
		t.Error("an end was recorded twice")
	}
	if _, late := st.endedAttempts.recordLateEnd(TaskUpdate{TaskID: "unknown", State: job.Failed}); late {
		t.Error("the end of an unknown attempt was recorded")
	}
	if _, _, ok := ParseAttempt("other", nil); ok {
		t.Error("another document is an attempt")
	}
}

// Nothing is kept of a job that was forgotten, nor of a task that has ended.
func TestNothingIsKeptOfForgottenJobs(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	first, second := testSpec("first"), testSpec("second")
	first.Timeout = time.Hour
	second.After = []job.Dependency{{Job: "first"}}
	st := newPlacedState(SchedulerSettings{}, now, first, second)
	id := taskID(st, "first", 0)
	st.Step(now, TaskUpdate{TaskID: id, State: job.Running})
	if len(st.deadlines) == 0 || len(st.dependents) == 0 {
		t.Fatalf("while the first job runs: %d deadlines, %d dependents", len(st.deadlines), len(st.dependents))
	}
	st.Step(now, KillJob{Job: "second"})
	if len(st.dependents) != 0 {
		t.Errorf("after the end of the second job: %v", st.dependents)
	}
	st.Step(now, TaskUpdate{TaskID: id, State: job.Failed})
	if len(st.deadlines) != 0 {
		t.Errorf("after the end of the task: %v", st.deadlines)
	}
	j, _ := st.Job("first")
	ended := j.Tasks[0]
	ended.ID, ended.AgentID = "first.earlier", "agent"
	st.endedAttempts.keep(ended, j)
	st.TakeChanges()
	st.Step(now, ForgetJob{Job: "first"})
	if c := st.TakeChanges(); len(c.Removed) != 1 || st.Document(attemptPrefix+ended.ID) != nil || st.endedAttempts.count != 0 {
		t.Errorf("removed %v, %d attempts are kept", c.Removed, st.endedAttempts.count)
	}
}

// A task that was retired by scaling down gets no new state when its service is killed, and keeps its reason.
func TestKilledServiceRetiresTasksForGood(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := newPlacedState(SchedulerSettings{}, now, testService("web", 2))
	st.Step(now, ScaleService{Job: "web", Tasks: 1})
	j, _ := st.Job("web")
	at := slices.IndexFunc(j.Tasks, func(t job.Task) bool { return !t.KillRequested.IsZero() })
	retired := j.Tasks[at].ID
	st.Step(now, TaskUpdate{TaskID: retired, State: job.Killed})
	st.TakeChanges()
	st.Step(now, KillJob{Job: "web"})
	for _, m := range st.TakeChanges().Transitions {
		if want := m.TaskID == retired; m.Repeated != want || want && (m.State != job.Killed || m.Message != "its service was scaled down") {
			t.Errorf("the task %s has the transition %+v", m.TaskID, m)
		}
	}
	if task, _ := st.Task(retired); task.KillReason != job.KillByEarlierScaling || task.IsRetired() || task.Message != "its service was scaled down" {
		t.Errorf("the retired task is %+v", task)
	}
}

// The last changes of the number of tasks are recorded with the job, with the user or the
// reason. New and ended tasks have the reason as message. Copies of the job keep their list.
func TestScalingsAreKept(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := newPlacedState(SchedulerSettings{}, now, testService("web", 1))
	st.Step(now.Add(time.Second), ScaleService{Job: "web", Tasks: 2, Reason: "queue 30 a task, target 10"})
	before, _ := st.Job("web")
	if c := st.TakeChanges(); len(c.Jobs) != 1 || len(c.Jobs[0].Changes) != 1 || c.Tasks[0].Message != "queue 30 a task, target 10" {
		t.Errorf("recorded %+v, tasks %+v", c.Jobs, c.Tasks)
	}
	st.Step(now.Add(2*time.Second), ScaleService{Job: "web", Tasks: 2, By: "ada"}) // changes nothing
	if c := st.TakeChanges(); !c.IsEmpty() {
		t.Errorf("a request for the same number recorded %+v", c)
	}
	st.Step(now.Add(3*time.Second), ScaleService{Job: "web", Tasks: 1, By: "ada"})
	c := st.TakeChanges()
	if len(c.Jobs) != 1 || len(c.Tasks) != 1 || c.Tasks[0].Message != "its service was scaled down" || c.Tasks[0].KilledBy != "ada" {
		t.Errorf("recorded %+v, tasks %+v", c.Jobs, c.Tasks)
	}
	st.Step(now.Add(4*time.Second), ScaleService{Job: "web", Tasks: 2})
	st.Step(now.Add(5*time.Second), ScaleService{Job: "web", Tasks: 1, Reason: "queue 0 a task, target 10"})
	if c := st.TakeChanges(); c.Tasks[0].Message != "its service was scaled down: queue 0 a task, target 10" {
		t.Errorf("recorded tasks %+v", c.Tasks)
	}
	j, _ := st.Job("web")
	var got []string
	for _, one := range j.Changes {
		got = append(got, one.Time.Sub(now).String()+" "+one.Message())
	}
	want := []string{
		"1s scaled from 1 to 2 tasks: queue 30 a task, target 10", "3s scaled from 2 to 1 task by ada",
		"4s scaled from 1 to 2 tasks", "5s scaled from 2 to 1 task: queue 0 a task, target 10",
	}
	if diff := cmp.Diff(want, got); diff != "" || len(before.Changes) != 1 {
		t.Errorf("-want +got\n%s", diff)
	}
	for n := range 3 * job.MaxChanges {
		st.Step(now.Add(time.Minute), ScaleService{Job: "web", Tasks: n%2 + 1})
	}
	if j, _ := st.Job("web"); len(j.Changes) != job.MaxChanges || len(before.Changes) != 1 {
		t.Errorf("%d changes are kept", len(j.Changes))
	}
}
