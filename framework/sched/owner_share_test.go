package sched

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// sharedState returns a State with the roles prod and research.
func sharedState(cfg SchedulerSettings) *State {
	cfg.Policy = Policy{Policy: placement.Policy{Roles: []queue.Role{{Name: "prod"}, {Name: "research"}}}}
	return New(cfg, RecoveredState{})
}

func ownedSpec(name, role, owner string, tasks int) job.Spec {
	s := testSpec(name)
	s.Role, s.Owner, s.Tasks = role, owner, tasks
	return s
}

// fillLimit submits jobs of one user until they are refused, and returns how many were accepted and why the next was not.
func fillLimit(st *State, role, owner string, change func(*job.Spec)) (accepted int, err error) {
	for {
		s := ownedSpec(fmt.Sprintf("j-%s-%s-%d", role, owner, accepted), role, owner, 1)
		if change != nil {
			change(&s)
		}
		if err := st.Admit(&s); err != nil {
			return accepted, err
		}
		st.Step(time.Unix(1_700_000_000, 0), SubmitJob{Spec: s})
		accepted++
	}
}

// TestOneSubmitterLeavesTasksForOthers checks that users and roles that fill their shares, one after the other, leave
// something for each that comes later, and that an end of tasks makes room again.
func TestOneSubmitterLeavesTasksForOthers(t *testing.T) {
	st := sharedState(SchedulerSettings{MaxLiveTasks: 80})
	for _, c := range []struct {
		role, owner string
		accepted    int
		why         string
	}{
		{"research", "alice", 20, `alice in role "research" has 20 tasks that have not ended, 1 more would pass 20, which is 50 % of what other users leave free`},
		{"research", "admin", 10, "50 % of what other users leave free"},
		{"research", "", 10, `role "research" has 40 tasks that have not ended, 1 more would pass 40, which is 50 % of what other roles leave free`},
		{"prod", "bob", 10, `bob in role "prod"`},
	} {
		if got, err := fillLimit(st, c.role, c.owner, nil); got != c.accepted || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s of %s: accepted %d, then %v; want %d, %q", c.owner, c.role, got, err, c.accepted, c.why)
		}
	}
	st.Step(time.Unix(1_700_000_000, 0), KillJob{Job: "j-prod-bob-0"})
	again := ownedSpec("again", "prod", "bob", 1)
	if err := st.Admit(&again); err != nil {
		t.Errorf("after the end of a task: %v", err)
	}
	// A restart counts the same.
	next := sharedState(SchedulerSettings{MaxLiveTasks: 80})
	next = New(next.cfg, RecoveredState{Jobs: st.Jobs()})
	if next.liveTasks.total != st.liveTasks.total || next.liveBytes.total != st.liveBytes.total || next.ended.bytes.total != st.ended.bytes.total {
		t.Errorf("a restart counts %d tasks of %d bytes, want %d of %d", next.liveTasks.total, next.liveBytes.total, st.liveTasks.total, st.liveBytes.total)
	}
}

// TestShrunkPartRefusesOnlyMore checks that jobs that exceed a part, because another role came later, keep running, and that
// a service with them may be scaled down, and up within its part of tasks.
func TestShrunkPartRefusesOnlyMore(t *testing.T) {
	st := sharedState(SchedulerSettings{MaxLiveTasks: 80, MaxSpecBytes: 100 << 10})
	service := ownedSpec("web", "research", "", 2)
	service.Service = &job.Service{}
	service.Env = map[string]string{"A": strings.Repeat("x", 48<<10)}
	service.SetDefaults()
	if err := st.Admit(&service); err != nil {
		t.Fatal(err)
	}
	st.Step(time.Unix(1_700_000_000, 0), SubmitJob{Spec: service})
	if n, _ := fillLimit(st, "prod", "", nil); n < 10 {
		t.Fatalf("the other role has %d jobs", n)
	}
	for _, tasks := range []int{1, 3} {
		if err := st.AdmitScale("web", tasks); err != nil {
			t.Errorf("scale to %d: %v", tasks, err)
		}
	}
	more := ownedSpec("more", "research", "", 1)
	if err := st.Admit(&more); err == nil || !strings.Contains(err.Error(), "other roles leave free") {
		t.Errorf("another job: %v", err)
	}
}

func TestOnlySubmitterUsesWholeLimit(t *testing.T) {
	if got, err := fillLimit(New(SchedulerSettings{MaxLiveTasks: 20}, RecoveredState{}), "", "", nil); got != 20 ||
		!strings.Contains(err.Error(), "the limit of 20") {
		t.Errorf("without roles and users: accepted %d, then %v", got, err)
	}
	if got, err := fillLimit(New(SchedulerSettings{MaxLiveTasks: 20}, RecoveredState{}), "", "alice", nil); got != 10 {
		t.Errorf("one user without roles: accepted %d, then %v", got, err)
	}
	if got, err := fillLimit(sharedState(SchedulerSettings{MaxLiveTasks: 20, LimitShare: 100}), "prod", "alice", nil); got != 20 {
		t.Errorf("a share of 100 %%: accepted %d, then %v", got, err)
	}
}

// TestTextsOfLiveJobsAreBounded checks that large environments are refused long before they fill the memory.
func TestTextsOfLiveJobsAreBounded(t *testing.T) {
	st := sharedState(SchedulerSettings{MaxSpecBytes: 8 << 20})
	large := func(s *job.Spec) {
		s.Env = map[string]string{"A": strings.Repeat("x", 100<<10), "B": strings.Repeat("x", 100<<10)}
	}
	got, err := fillLimit(st, "research", "alice", large)
	if got != 10 || !strings.Contains(err.Error(), "bytes of jobs that have not ended") || !strings.Contains(err.Error(), "2097152") {
		t.Errorf("accepted %d, then %v", got, err)
	}
	if got, err := fillLimit(st, "prod", "bob", large); got < 5 {
		t.Errorf("the next user gets %d, then %v", got, err)
	}
}

// TestEndedJobsOfLargestOwnerAreForgottenFirst checks that a user who submits and ends many jobs makes the scheduler forget
// the user's own.
func TestEndedJobsOfLargestOwnerAreForgottenFirst(t *testing.T) {
	st := sharedState(SchedulerSettings{MaxEndedTasks: 50})
	now := time.Unix(1_700_000_000, 0)
	end := func(role, owner string, n int) {
		for i := range n {
			now = now.Add(time.Second)
			s := ownedSpec(fmt.Sprintf("%s-%d", owner, i), role, owner, 1)
			st.Step(now, SubmitJob{Spec: s})
			st.Step(now, KillJob{Job: s.Name})
		}
	}
	end("prod", "bob", 11)
	end("research", "carol", 5)
	end("research", "alice", 200)
	for name, want := range map[string]bool{"bob-0": true, "carol-0": true, "alice-0": false, "alice-165": false, "alice-166": true, "alice-199": true} {
		if _, ok := st.Job(name); ok != want {
			t.Errorf("%s is remembered: %t, want %t", name, ok, want)
		}
	}
}

// TestEndedAttemptsOfLargestRoleAreForgottenFirst checks the same of attempts.
func TestEndedAttemptsOfLargestRoleAreForgottenFirst(t *testing.T) {
	st := sharedState(SchedulerSettings{})
	keep := func(name, role string, n int) {
		j := &job.Job{Spec: &job.Spec{Name: name, Role: role}, Tasks: make([]job.Task, 2*maxAttemptsOfAll)}
		for i := range n {
			st.endedAttempts.keep(job.Task{ID: fmt.Sprint(name, i), Job: name, Attempt: i, AgentID: "agent"}, j)
		}
	}
	keep("small", "prod", 50)
	keep("big", "research", 2*maxAttemptsOfAll)
	if st.Document(attemptPrefix+"small0") == nil || st.Document(attemptPrefix+"big0") != nil || st.endedAttempts.count != maxAttemptsOfAll {
		t.Errorf("%d attempts are stored, the other role's oldest is stored: %t", st.endedAttempts.count, st.Document(attemptPrefix+"small0") != nil)
	}
	first := 2*maxAttemptsOfAll - (maxAttemptsOfAll - 50)
	keep("another", "prod", 1) // a role with fewer attempts takes the place of one of the largest
	if st.Document(attemptPrefix+"small0") == nil || st.Document(attemptPrefix+"another0") == nil ||
		st.Document(attemptPrefix+fmt.Sprint("big", first)) != nil || st.Document(attemptPrefix+fmt.Sprint("big", first+1)) == nil {
		t.Error("an attempt of the smaller role, or more than one of the larger role, was forgotten")
	}
}

// TestSharedLimitCheck checks the limit that callers outside of the State use.
func TestSharedLimitCheck(t *testing.T) {
	l := SharedLimit{Max: 10, Noun: "requests", Percent: 50, SeveralRoles: true}
	var u UsageByOwner
	alice, bob := ownedSpec("a", "prod", "alice", 1), ownedSpec("b", "prod", "bob", 1)
	u.Add(&alice, 2)
	if u.Total() != 2 {
		t.Errorf("counted %d", u.Total())
	}
	for _, c := range []struct {
		spec *job.Spec
		n    int
		ok   bool
	}{{&alice, 0, true}, {&alice, 1, false}, {&bob, 1, true}, {&bob, 2, false}, {&alice, -1, true}} {
		if err := l.Check(&u, c.spec, c.n); (err == nil) != c.ok {
			t.Errorf("%d more of %s: %v", c.n, c.spec.Owner, err)
		}
	}
}

// TestDeadlinesIgnoreTheWallClock checks that the times of a running task keep the monotonic clock of the events, so that
// a change of the wall clock ends no task.
func TestDeadlinesIgnoreTheWallClock(t *testing.T) {
	st := New(SchedulerSettings{}, RecoveredState{})
	start := time.Now()
	s := testSpec("j")
	s.Request.GPUs, s.Timeout = 0, time.Hour
	st.Step(start, Subscribed{FrameworkID: "f"})
	st.Step(start, SubmitJob{Spec: s})
	st.Step(start, OffersReceived{Offers: []Offer{{ID: "o", AgentID: "a", Hostname: "a", Free: Amount{CPUs: 4, MemMiB: 4096}}}})
	st.Step(start, Cycle{})
	j, _ := st.Job("j")
	id := j.Tasks[0].ID
	st.Step(start, TaskUpdate{TaskID: id, AgentID: "a", State: job.Running})
	d := st.deadlines[id]
	if d == nil || !strings.Contains(d.timeoutAt.String(), " m=") {
		t.Fatalf("the deadline %v has no monotonic reading", d)
	}
	st.Step(start.Add(time.Hour-time.Second), Tick{})
	if task, _ := st.Task(id); task.State != job.Running {
		t.Errorf("the task is %s before its timeout", task.State)
	}
	st.Step(start.Add(time.Hour), Tick{})
	if task, _ := st.Task(id); task.State != job.Killing {
		t.Errorf("the task is %s after its timeout", task.State)
	}
}

// TestPreemptedTaskDoesNotPreemptBack checks that a preempted task waits until its resources are free.
func TestPreemptedTaskDoesNotPreemptBack(t *testing.T) {
	st := New(SchedulerSettings{}, RecoveredState{})
	now := time.Unix(1_700_000_000, 0)
	offers := 0
	step := func(ev Event) {
		now = now.Add(time.Second)
		for _, op := range append(st.Step(now, ev), st.Step(now, Cycle{})...) {
			if kill, ok := op.(KillTask); ok {
				st.Step(now, TaskUpdate{TaskID: kill.TaskID, AgentID: "a", State: job.Killed})
			}
		}
	}
	offer := func() {
		offers++
		step(OffersReceived{Offers: []Offer{{ID: fmt.Sprint("o", offers), AgentID: "a", Hostname: "a", Free: Amount{CPUs: 2, MemMiB: 4096}}}})
	}
	submit := func(name string, priority int) {
		s := testSpec(name)
		s.Request.GPUs, s.CPUs, s.Priority, s.Preemptible = 0, 1.8, priority, true
		step(SubmitJob{Spec: s})
	}
	step(Subscribed{FrameworkID: "f"})
	submit("low", 0)
	offer()
	submit("high", 1)
	for range 20 { // the master offers again whatever is free
		offer()
		j, _ := st.Job("high")
		if high := j.Tasks[0]; high.State == job.Launching {
			step(TaskUpdate{TaskID: high.ID, AgentID: "a", State: job.Running})
		}
		step(OfferRescinded{OfferID: fmt.Sprint("o", offers)})
	}
	high, _ := st.Job("high")
	low, _ := st.Job("low")
	if high.Tasks[0].Attempt != 1 || high.Tasks[0].State != job.Running {
		t.Errorf("the higher priority is %s in attempt %d, want its first attempt running", high.Tasks[0].State, high.Tasks[0].Attempt)
	}
	if low.Tasks[0].Attempt != 2 {
		t.Errorf("the preempted task is %s in attempt %d, want attempt 2", low.Tasks[0].State, low.Tasks[0].Attempt)
	}
}
