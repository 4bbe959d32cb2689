package sched

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
)

// firstRun returns the first run of a name.
func firstRun(name string) job.RunID { return job.RunID{Name: name, Run: 1} }

// TestReservationReasonCountsTasksThatStillWait checks that the reason of the last plan is reported with the number of
// tasks that wait now.
func TestReservationReasonCountsTasksThatStillWait(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	running, head, web := testSpec("running"), testSpec("head"), testService("web", 3)
	running.CPUs, running.RunTime, head.CPUs = 5, time.Hour, 7
	st := newPlacedState(SchedulerSettings{}, now, running)
	st.Step(now, TaskUpdate{TaskID: taskID(st, "running", 0), State: job.Running})
	st.Step(now, SubmitJob{Spec: head})
	st.Step(now, SubmitJob{Spec: web})
	st.Step(now, OffersReceived{Offers: []Offer{{ID: "rest", AgentID: "a", Free: Amount{CPUs: 2.9, MemMiB: 9000}}}})
	st.Step(now, Cycle{})
	needs := "a place that head will not need"
	if r := st.PendingReasons()[firstRun("web")]; r.Needs != needs || r.Missing != 3 || r.Tasks != 3 {
		t.Errorf("3 tasks wait, the reason is %+v", r)
	}
	st.Step(now, ScaleService{Job: "web", Tasks: 1})
	if r := st.PendingReasons()[firstRun("web")]; r.Needs != needs || r.Missing != 1 || r.Tasks != 1 {
		t.Errorf("1 task waits, the reason is %+v", r)
	}
}

// TestExclusionsCountTasksOfGroup checks that constraints of a group count the tasks of its other jobs.
func TestExclusionsCountTasksOfGroup(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	first, second, other := testSpec("first"), testSpec("second"), testSpec("other")
	for _, s := range []*job.Spec{&first, &second, &other} {
		s.Group, s.Constraints = "web", []job.Constraint{{Field: "hostname", Operator: job.Unique}}
	}
	other.Group = "db"
	st := New(SchedulerSettings{}, RecoveredState{})
	st.Step(now, Subscribed{FrameworkID: "f"})
	st.Step(now, SubmitJob{Spec: first})
	st.Step(now, OffersReceived{Offers: []Offer{{ID: "o", AgentID: "a", Hostname: "host", Free: Amount{CPUs: 8, MemMiB: 10_000}}}})
	st.Step(now, Cycle{})
	st.Step(now, SubmitJob{Spec: second})
	st.Step(now, SubmitJob{Spec: other})
	excluded := map[string]int{}
	for run, counts := range st.CountExclusions(firstRun("first"), firstRun("other"), firstRun("second"), firstRun("missing")) {
		i := slices.IndexFunc(counts, func(c job.ExclusionCount) bool { return c.Cause == job.ExcludedByConstraint })
		excluded[run.Name] = counts[i].Excluded
	}
	if diff := cmp.Diff(map[string]int{"second": 1, "other": 0}, excluded); diff != "" {
		t.Errorf("agents that constraints exclude (-want +got):\n%s", diff)
	}
}

// TestPendingReasonsOfNamedJobs checks that jobs that do not exist or do not wait have no reason.
func TestPendingReasonsOfNamedJobs(t *testing.T) {
	st := newPlacedState(SchedulerSettings{}, time.Unix(1_700_000_000, 0), testSpec("placed"), func() job.Spec {
		s := testSpec("large")
		s.CPUs = 100
		return s
	}())
	reasons := st.PendingReasons(firstRun("missing"), firstRun("placed"), firstRun("large"))
	if len(reasons) != 1 || reasons[firstRun("large")].Missing != 1 {
		t.Errorf("reasons are %+v, want one, of large", reasons)
	}
	if diff := cmp.Diff(reasons, st.PendingReasons()); diff != "" {
		t.Errorf("reasons of all jobs (-named +all):\n%s", diff)
	}
}
