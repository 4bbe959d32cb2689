package framework

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/leader"
	"mesos-gpu/framework/master"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// TestAccounting: the end of a task is in the sums at once, with what its agent has measured, also after the scheduler was
// replaced and has forgotten the job.
func TestAccounting(t *testing.T) {
	c := mesostest.NewCluster(t, 4)
	dir := t.TempDir()
	in := startWithJournal(t, c, filepath.Join(dir, "journal.db"))
	ctx := frameworktest.Timeout(t)
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 2)); err != nil {
		t.Fatal(err)
	}
	view := awaitState(t, in, "train", job.Running)
	task := &view.Tasks[0]
	framework := in.currentBackend().Leader.Forecast.(*leader.Leader).Model.CurrentFrameworkID()
	c.SetFile(master.SandboxFilePath(framework, task.ID, gpu.UsageFile), fmt.Sprintf(
		`{"time":%q,"devices":[{"uuid":%q,"duty":1,"totals":{"seconds":1e-6,"busy_seconds":5e-7,"mem_mib_seconds":4,"mem_used_mib_seconds":1,"max_mem_mib":7,"joules":0}}]}`,
		time.Now().Format(time.RFC3339Nano), task.DeviceIDs[0]))
	if err := in.KillJob(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	ended := awaitState(t, in, "train", job.Killed)
	held := ended.Tasks[0].Ended.Sub(ended.Tasks[0].Launched).Seconds()
	one, err := in.AccountJob(ctx, "train", 20*time.Second)
	if err != nil || one.GPUSeconds != 2*held || one.Attempts != 1 || one.Unfinished != 1 || one.Pending != 0 || one.Usage.MaxMemMiB != 7 {
		t.Errorf("got %+v, %v, want %g GPU seconds", one, err, 2*held)
	}
	if duty, ok := one.Usage.Duty(); !ok || duty < 0.49 || duty > 0.51 {
		t.Errorf("duty %g, %t", duty, ok)
	}
	in.stopAndWait(t)
	in = startInstance(t, c, SchedulerConfig{JournalPath: filepath.Join(dir, "other.db"), Accounting: filepath.Join(dir, "accounting.db")})
	report, err := in.ReportAccounting(ctx, api.AccountingQuery{By: []string{"job", "type"}, Since: view.Submitted})
	if err != nil || len(report.Groups) != 1 || report.Groups[0].Keys["job"] != "train" || report.Total.GPUSeconds != 2*held {
		t.Errorf("got %+v, %v", report, err)
	}
	var list []api.AccountedAttempt
	for a, err := range in.EachAccountedAttempt(ctx, api.AccountingQuery{Job: "train@1", State: job.Killed}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	if len(list) != 1 || list[0].Task != task.ID || list[0].Reason != "killed" || len(list[0].Devices) != 2 || list[0].Usage == nil {
		t.Errorf("got %+v", list)
	}
	if _, err := in.AccountJob(ctx, "train", 0); frameworktest.StatusOf(err) != http.StatusNotFound {
		t.Errorf("a forgotten job: %v", err)
	}
}

// TestAccountingHidesInvisibleRoles: a user's sums and lists have only the roles that he may view.
func TestAccountingHidesInvisibleRoles(t *testing.T) {
	c := mesostest.NewCluster(t, 4)
	in := startInstance(t, c, SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), Roles: []string{"research", "prod"}})
	ctx := frameworktest.Timeout(t)
	for _, role := range []string{"research", "prod"} {
		spec := frameworktest.JobSpec(role+"-job", 1, 1)
		spec.Role = role
		if _, err := in.SubmitJob(ctx, spec); err != nil {
			t.Fatal(err)
		}
		if err := in.KillJob(ctx, spec.Name); err != nil {
			t.Fatal(err)
		}
		awaitState(t, in, spec.Name, job.Killed)
	}
	policy := &access.AccessPolicy{Rules: []access.PermissionRule{{Permission: access.View, Roles: []string{"prod"}, Users: []string{"ada"}}}}
	seen := policy.GrantFor(access.Identity{Name: "ada"})
	leads := in.currentBackend().Leader.Accounting
	report, err := leads.ReportAccounting(ctx, seen, api.AccountingQuery{By: []string{"role"}})
	if err != nil || report.Total.Attempts != 1 || len(report.Groups) != 1 || report.Groups[0].Keys["role"] != "prod" {
		t.Errorf("got %+v, %v", report, err)
	}
	list, _, err := leads.ListAttempts(ctx, seen, api.AccountingQuery{}, 0, nil)
	if err != nil || len(list) != 1 || list[0].Role != "prod" {
		t.Errorf("got %+v, %v", list, err)
	}
}

// TestAccountingCanBeDisabled: without accounting its requests are answered with 404.
func TestAccountingCanBeDisabled(t *testing.T) {
	in := startInstance(t, mesostest.NewCluster(t, 1), SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), Accounting: NoAccounting})
	_, err := in.ReportAccounting(frameworktest.Timeout(t), api.AccountingQuery{})
	wantProblem(t, err, http.StatusNotFound, "--accounting none")
}
