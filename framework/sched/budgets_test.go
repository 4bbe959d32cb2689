package sched

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"mesos-gpu/framework/sched/budget"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// runBudgetCommand executes: budget ROLE month=HOURS user=HOURS types=TYPE:HOURS at=LIMIT, which replaces the role's budget;
// accounted ROLE USER TYPE HOURS, which has the accounting report that; and budgets, which prints what is used.
func (p *scenarioRunner) runBudgetCommand(verb string, args []string, opt map[string]string) {
	switch verb {
	case "budget":
		b := &budget.Budget{
			Month:    float(opt["month"], 0),
			EachUser: float(opt["user"], 0),
			AtLimit:  budget.AtLimit(opt["at"]),
		}
		if name, hours, ok := cutPair(opt["types"]); ok {
			b.Types = map[string]float64{name: float(hours, 0)}
		}
		policy := p.st.cfg.Policy
		policy.Roles = slices.Clone(p.st.configuredRoles)
		policy.Roles[slices.IndexFunc(policy.Roles, func(r queue.Role) bool { return r.Name == args[0] })].Budget = b
		if err := policy.Validate(); err != nil {
			p.t.Fatal(err)
		}
		p.step(PolicyChanged{Policy: policy})
	case "accounted":
		key := budget.Key{Role: args[0], User: args[1], Type: args[2]}
		p.step(BudgetUsageMeasured{Until: p.now, Used: budget.Usage{key: 3600 * float(args[3], 0)}})
	case "budgets":
		for _, r := range p.st.RoleUsages() {
			for i := range r.Budgets {
				e := &r.Budgets[i]
				fmt.Fprintf(&p.out, "%s: %s", e.Name(), e.DescribeUse(budget.MonthOf(p.now)))
				if e.HeldTasks > 0 {
					fmt.Fprintf(&p.out, ", %d waiting %s held", e.HeldTasks, map[bool]string{true: "task is", false: "tasks are"}[e.HeldTasks == 1])
				}
				fmt.Fprintln(&p.out)
			}
		}
	}
}

func cutPair(text string) (name, value string, ok bool) {
	at := slices.Index([]byte(text), ':')
	if at < 0 {
		return "", "", false
	}
	return text[:at], text[at+1:], true
}

// budgetState returns a State with a budget of 10 GPU hours for the role "*", in which a task with 2 GPUs was launched an hour ago.
func budgetState(t *testing.T, now time.Time, accounting bool) *State {
	t.Helper()
	b := &budget.Budget{Month: 10}
	st := New(SchedulerSettings{Policy: Policy{Policy: placement.Policy{Roles: []queue.Role{{Name: "*", Budget: b}}}}, Accounting: accounting}, RecoveredState{
		Jobs: []*job.Job{{
			Spec:      &job.Spec{Name: "a", Role: "*", Owner: "ann", Tasks: 1, CPUs: 1, MemMiB: 1, Request: gpu.Request{GPUs: 2}},
			Submitted: now.Add(-2 * time.Hour),
			Tasks: []job.Task{{
				ID: "a.0.1", Job: "a", Attempt: 1, State: job.Running, AgentID: "g", GPUTypes: map[string]int{"V100": 2},
				Launched: now.Add(-time.Hour), Started: now.Add(-time.Hour), Changed: now.Add(-time.Hour),
			}},
		}},
	})
	st.Step(now, Tick{})
	return st
}

func usedHours(st *State) (sum float64) {
	for _, seconds := range st.budgetUsage() {
		sum += seconds / 3600
	}
	return sum
}

func checkHours(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s: %g GPU hours are used, want %g", what, got, want)
	}
}

// TestEachAttemptCountsOnceForBudgets: a task counts until now, and from its end on until the accounting reports it, whether
// that was read before or after the end.
func TestEachAttemptCountsOnceForBudgets(t *testing.T) {
	now := time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)
	st := budgetState(t, now, true)
	checkHours(t, "runs for an hour", usedHours(st), 2)
	readBefore := now.Add(time.Minute)
	now = now.Add(time.Hour)
	st.Step(now, TaskUpdate{TaskID: "a.0.1", AgentID: "g", State: job.Finished, Proof: ProvenEnd})
	checkHours(t, "ended", usedHours(st), 4)
	st.Step(now, BudgetUsageMeasured{Until: readBefore, Used: budget.Usage{}})
	checkHours(t, "read before the end", usedHours(st), 4)
	st.Step(now, BudgetUsageMeasured{Until: now, Used: budget.Usage{}})
	checkHours(t, "read up to the end, which is excluded", usedHours(st), 4)
	st.Step(now.Add(time.Second), BudgetUsageMeasured{Until: now.Add(1), Used: budget.Usage{{Role: "*", User: "ann", Type: "V100"}: 4 * 3600}})
	checkHours(t, "accounted", usedHours(st), 4)
}

// TestBudgetsBeginAgainEachMonth: what was used before the start of the month in UTC does not count, without a new report.
func TestBudgetsBeginAgainEachMonth(t *testing.T) {
	end := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	st := budgetState(t, end.Add(-30*time.Minute), true)
	st.Step(end.Add(-30*time.Minute), BudgetUsageMeasured{Until: end.Add(-30 * time.Minute), Used: budget.Usage{{Role: "*", Type: "V100"}: 10 * 3600}})
	if len(st.budgets.usedUp) != 1 {
		t.Fatalf("used up: %v", st.budgets.usedUp)
	}
	st.Step(end.Add(15*time.Minute), Tick{})
	checkHours(t, "a quarter of an hour of the new month", usedHours(st), 0.5)
	if len(st.budgets.usedUp) != 0 {
		t.Errorf("used up: %v", st.budgets.usedUp)
	}
}

// TestBudgetsWaitForTheAccounting: with accounting, a new leader starts no task of a role with a budget before it knows what is used.
func TestBudgetsWaitForTheAccounting(t *testing.T) {
	now := time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)
	st := budgetState(t, now, true)
	if !st.IsBudgetUsageDue(now) || len(st.budgets.usedUp) != 1 {
		t.Fatalf("due %t, used up: %v", st.IsBudgetUsageDue(now), st.budgets.usedUp)
	}
	st.Step(now, BudgetUsageMeasured{Until: now, Used: budget.Usage{}})
	if st.IsBudgetUsageDue(now.Add(time.Second)) || !st.IsBudgetUsageDue(now.Add(budgetUsageInterval)) || len(st.budgets.usedUp) != 0 {
		t.Errorf("used up: %v", st.budgets.usedUp)
	}
	if st := budgetState(t, now, false); len(st.budgets.usedUp) != 0 {
		t.Errorf("without accounting: %v", st.budgets.usedUp)
	}
}

// TestBudgetsNotifyOnce: the targets of a role are notified at the part that the operator has named and when all is used,
// once each in a month, also by a new leader.
func TestBudgetsNotifyOnce(t *testing.T) {
	now := time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)
	role := queue.Role{
		Name:   "lab",
		Budget: &budget.Budget{Month: 10, WarnAt: 0.5, AtLimit: budget.Warn},
		Notify: []job.NotificationRule{{To: "mailto:ops@example.org", On: []job.NotificationEvent{job.NotifyBudget}}},
	}
	cfg := SchedulerSettings{Policy: Policy{Policy: placement.Policy{Roles: []queue.Role{role}}}, Accounting: true}
	st := New(cfg, RecoveredState{})
	step := func(hours float64, want ...string) {
		t.Helper()
		now = now.Add(time.Hour)
		st.Step(now, BudgetUsageMeasured{Until: now, Used: budget.Usage{{Role: "lab", User: "ann", Type: "V100"}: hours * 3600}})
		var got []string
		for _, id := range slices.Sorted(maps.Keys(st.notifications.byID)) {
			n := st.notifications.byID[id]
			if got = append(got, n.Reason); n.Event != job.NotifyBudget || n.Role != "lab" {
				t.Errorf("got %+v", n)
			}
			st.notifications.remove(id)
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %g hours: got %q, want %q", hours, got, want)
		}
	}
	step(4.9)
	step(5, "of the budget of role lab, 5 of 10 GPU hours of 2026-03 are used")
	step(9)
	st = New(cfg, RecoveredState{Documents: st.Documents()})
	step(9.5)
	step(12, "of the budget of role lab, 12 of 10 GPU hours of 2026-03 are used")
	step(13)
	now = now.AddDate(0, 1, 0)
	step(11, "of the budget of role lab, 11 of 10 GPU hours of 2026-04 are used")
}
