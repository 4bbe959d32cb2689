package framework

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched/budget"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// TestBudgetHoldsJobs: a job of a role over its budget does not start, also after the scheduler was replaced, and its reason
// has both numbers. What the budget counts is what the accounting has. Once the operator raises the budget, the job starts.
func TestBudgetHoldsJobs(t *testing.T) {
	c := mesostest.NewCluster(t, 4)
	dir := t.TempDir()
	roles := filepath.Join(dir, "roles.yaml")
	writeRoles := func(month string) {
		t.Helper()
		if err := os.WriteFile(roles, []byte(`"*": {budget: {month: `+month+`}}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeRoles("0.00001h")
	cfg := SchedulerConfig{JournalPath: filepath.Join(dir, "journal.db"), RolesFile: roles}
	in := startInstance(t, c, cfg)
	ctx := frameworktest.Timeout(t)
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("first", 1, 2)); err != nil {
		t.Fatal(err)
	}
	first := awaitState(t, in, "first", job.Running)
	awaitBudget(ctx, t, in, func(used, amount float64) bool { return used > amount })
	if err := in.KillJob(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "first", job.Killed)
	report, err := in.ReportAccounting(ctx, api.AccountingQuery{Since: first.Submitted})
	if err != nil {
		t.Fatal(err)
	}
	want := report.Total.GPUSeconds / 3600
	if budget.MonthOf(first.Submitted).Equal(budget.MonthOf(time.Now())) {
		awaitBudget(ctx, t, in, func(used, _ float64) bool { return math.Abs(used-want) < 1e-12 })
	}
	in.stopAndWait(t)

	in = startInstance(t, c, cfg)
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("second", 1, 1)); err != nil {
		t.Fatal(err)
	}
	awaitBudget(ctx, t, in, func(used, _ float64) bool { return math.Abs(used-want) < 1e-12 })
	awaitReason(ctx, t, in, "second", "GPU hours")
	numbers := fmt.Sprintf("%.4g of 1e-05 GPU hours of", want)
	view, err := in.GetJob(ctx, "second")
	if err != nil || view.State != job.Waiting || !strings.HasPrefix(view.WaitReason, "GPU time in the budget of role *; "+numbers) {
		t.Errorf("got %s, %q, %v, want %s", view.State, view.WaitReason, err, numbers)
	}
	checked, err := in.ValidateJob(ctx, frameworktest.JobSpec("third", 1, 1), false)
	if err != nil || len(checked.Warnings) != 1 || !strings.Contains(checked.Warnings[0], numbers) {
		t.Errorf("warnings %q, %v", checked.Warnings, err)
	}
	writeRoles("1000h")
	if err := in.Reload(); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "second", job.Running)
}

// TestBudgetsSurviveFailover: a standby shows the same use of a budget as the leader, from its own accounting, with running tasks
// until now, and continues with it when it becomes the leader.
func TestBudgetsSurviveFailover(t *testing.T) {
	c, server := mesostest.NewCluster(t, 4), zktest.StartServer(t)
	dir := t.TempDir()
	roles := filepath.Join(dir, "roles.yaml")
	if err := os.WriteFile(roles, []byte(`"*": {budget: {month: 1000h}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(name, role string) *testInstance {
		t.Helper()
		in := startInstance(t, c, SchedulerConfig{
			JournalPath: "zk://" + server.Addr() + "/mesos-gpu/test", SessionTimeout: lasting, RolesFile: roles, Accounting: filepath.Join(dir, name),
		})
		awaitRole(t, in, role)
		return in
	}
	first := start("first.db", api.Leader)
	second := start("second.db", api.Standby)
	ctx := longTimeout(t)
	for name, gpus := range map[string]int{"ended": 2, "runs": 1} {
		if _, err := first.SubmitJob(ctx, frameworktest.JobSpec(name, 1, gpus)); err != nil {
			t.Fatal(err)
		}
		awaitState(t, first, name, job.Running)
	}
	if err := first.KillJob(ctx, "ended"); err != nil {
		t.Fatal(err)
	}
	awaitState(t, second, "ended", job.Killed)
	report, err := first.ReportAccounting(ctx, api.AccountingQuery{})
	if err != nil {
		t.Fatal(err)
	}
	running, err := first.GetJob(ctx, "runs")
	if err != nil {
		t.Fatal(err)
	}
	// wantExactUse waits until what is used is that of the ended task and of the running one until now.
	wantExactUse := func(in *testInstance) {
		t.Helper()
		usedUntil := func(at time.Time) float64 {
			return report.Total.GPUSeconds/3600 + at.Sub(running.Tasks[0].Launched).Hours()
		}
		begun := time.Now()
		awaitBudget(ctx, t, in, func(used, _ float64) bool {
			from, until := usedUntil(begun)-1e-9, usedUntil(time.Now())+1e-9
			begun = time.Now()
			return from <= used && used <= until
		})
	}
	wantExactUse(first)
	wantExactUse(second)
	first.stopAndWait(t)
	awaitRole(t, second, api.Leader)
	wantExactUse(second)
}

// awaitBudget waits until what the default role has used, and its budget, fulfil a condition.
func awaitBudget(ctx context.Context, t *testing.T, in *testInstance, condition func(used, amount float64) bool) {
	t.Helper()
	last := api.BudgetUse{}
	deadline := time.After(waitTimeout)
	for {
		roles, err := in.ListRoles(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(roles[0].Budgets) == 1 {
			if last = roles[0].Budgets[0]; condition(last.Used, last.Budget) {
				return
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatalf("the budget is %+v", last)
		}
	}
}

// TestBudgetsNeedTheAccounting: a scheduler without accounting refuses roles with budgets.
func TestBudgetsNeedTheAccounting(t *testing.T) {
	roles := filepath.Join(t.TempDir(), "roles.yaml")
	if err := os.WriteFile(roles, []byte("a: {budget: {month: 1h}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(SchedulerConfig{Master: "m:5050", ExecutorPath: "/x", JournalPath: "j.db", RolesFile: roles, Accounting: NoAccounting, Log: frameworktest.DiscardLog()})
	if err == nil || !strings.Contains(err.Error(), "role a: a budget needs the accounting") {
		t.Error(err)
	}
}

func TestParseBudget(t *testing.T) {
	roles, err := parseRoles([]byte(`
lab:
  budget: {month: 1000h, user: 100h, users: {ann: 200h, bob: none}, types: {A100: 200.5h}, at_limit: lower, warn_at: 75%}
shop: {budget: {month: 5000, prices: {A100: 2.5, "*": 1}}}
free: {}
`))
	if err != nil {
		t.Fatal(err)
	}
	b := roles[0].Budget
	if b.Month != 1000 || b.EachUser != 100 || b.NamedUsers["ann"] != 200 || b.NamedUsers["bob"] != 0 || len(b.NamedUsers) != 2 ||
		b.Types["A100"] != 200.5 || b.AtLimit != budget.Lower || b.WarnAt != 0.75 {
		t.Errorf("got %+v", b)
	}
	if p := roles[1].Budget; p.Month != 5000 || p.Prices["A100"] != 2.5 || p.Prices["*"] != 1 || roles[2].Budget != nil {
		t.Errorf("got %+v, %+v", p, roles[2].Budget)
	}
	for text, want := range map[string]string{
		"1000h":                            "want a mapping",
		"{moth: 1h}":                       `did you mean "month"`,
		"{month: 1000}":                    "write GPU hours such as 1000h, or name prices",
		`{month: 1h, prices: {"*": 1}}`:    "amounts without a unit",
		"{month: -1h}":                     "not an amount above 0",
		"{month: 1h, user: many}":          "user: ",
		"{month: 1h, at_limit: stop}":      "at_limit",
		"{month: 1h, warn_at: 0.8}":        "warn_at",
		`{month: 1, prices: {A100: 1}}`:    "price of all other types",
		`{month: 1h, types: {"*": 1h}}`:    "all types is month",
		"{month: 1h, users: [ann]}":        "types and users as mappings",
		"{month: 1h, types: {A100: true}}": "A100",
	} {
		if _, err := parseRoles([]byte("lab: {budget: " + text + "}")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// awaitReason waits until the reason why a job waits contains a text.
func awaitReason(ctx context.Context, t *testing.T, in *testInstance, name, text string) {
	t.Helper()
	for ctx.Err() == nil {
		view, err := in.GetJob(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(view.WaitReason, text) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("the reason of %s lacks %q", name, text)
}
