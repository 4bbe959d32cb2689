package framework

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// TestHoldsAndRequeues: jobs, users and roles are held by those who may, the reasons are shown, and all of it survives a
// restart. A job that is queued again runs another attempt.
func TestHoldsAndRequeues(t *testing.T) {
	g := newGuardedConfig(t)
	cluster, cfg := mesostest.NewCluster(t, 4), SchedulerConfig{
		JournalPath: filepath.Join(t.TempDir(), "journal.db"),
		RolesFile:   writeRolesFile(t, "research: {}\nprod: {}\n"),
		API:         g.APIConfig,
	}
	in := startInstance(t, cluster, cfg, client.WithTrustedCA(g.CAFile))
	ctx := longTimeout(t)
	alice, bob, ops, web := g.clientAs(t, "alice", in), g.clientAs(t, "bob", in), g.clientAs(t, "ops", in), g.clientAs(t, "web", in)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	wantReason := func(want string) {
		t.Helper()
		var view api.JobView
		awaitCondition(t, "the job waits for "+want, func() bool {
			var err error
			view, err = alice.GetJob(ctx, "train")
			return err == nil && strings.HasPrefix(view.WaitReason, want)
		})
		queue, err := alice.ListQueue(ctx)
		if err != nil || len(queue) != 1 || queue[0].Reason != view.WaitReason {
			t.Errorf("the queue is %+v, %v", queue, err)
		}
	}
	research, user := job.HoldTarget{Kind: job.HeldRole, Name: "research"}, job.HoldTarget{Kind: job.HeldUser, Name: "alice"}
	check(ops.HoldJobsOf(ctx, research, api.HoldRequest{Reason: "budget"}))
	wantProblem(t, alice.ReleaseJobsOf(ctx, research), http.StatusForbidden, "operate on role research")
	wantProblem(t, ops.HoldJobsOf(ctx, job.HoldTarget{Kind: job.HeldRole, Name: "lab"}, api.HoldRequest{}), http.StatusNotFound, "lab")
	_, err := alice.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 1))
	check(err)
	wantReason("role research is held by ops; budget")
	check(alice.HoldJobsOf(ctx, user, api.HoldRequest{}))
	wantProblem(t, bob.ReleaseJobsOf(ctx, user), http.StatusForbidden, "operate on all roles")
	if list, err := ops.ListHolds(ctx); err != nil || len(list) != 2 || list[0].Name != "alice" || list[1].Reason != "budget" {
		t.Errorf("ops sees the holds %+v, %v", list, err)
	}
	if list, err := web.ListHolds(ctx); err != nil || len(list) != 0 {
		t.Errorf("web sees the holds %+v, %v", list, err)
	}
	if role, err := ops.ListRoles(ctx); err != nil || role[0].Hold == nil || role[0].Hold.By != "ops" || role[1].Hold != nil {
		t.Errorf("roles are %+v, %v", role, err)
	}
	check(ops.ReleaseJobsOf(ctx, research))
	wantReason("user alice is held by alice; until it is released")
	in.stopAndWait(t)
	in = startInstance(t, cluster, cfg, client.WithTrustedCA(g.CAFile))
	alice, bob, ops = g.clientAs(t, "alice", in), g.clientAs(t, "bob", in), g.clientAs(t, "ops", in)
	if list, err := alice.ListHolds(ctx); err != nil || len(list) != 1 || list[0].Name != "alice" {
		t.Errorf("after a restart alice sees the holds %+v, %v", list, err)
	}
	check(alice.ReleaseJobsOf(ctx, user))
	in.Client = alice
	awaitState(t, in, "train", job.Running)

	// What an operator holds, the owner cannot release.
	check(ops.HoldJob(ctx, "train", "wrong data"))
	wantProblem(t, alice.ReleaseJob(ctx, "train"), http.StatusForbidden, "operate on role research")
	wantProblem(t, alice.HoldJob(ctx, "train", ""), http.StatusForbidden, "operate on role research")
	wantProblem(t, alice.RequeueJob(ctx, "train", api.RequeueRequest{Hold: true}), http.StatusForbidden, "operate on role research")
	wantProblem(t, bob.RequeueJob(ctx, "train", api.RequeueRequest{}), http.StatusForbidden, "operate on role research")
	check(alice.RequeueJob(ctx, "train", api.RequeueRequest{Reason: "a bug"}))
	awaitState(t, in, "train", job.Waiting)
	wantReason("held by ops; wrong data")
	check(ops.ReleaseJob(ctx, "train"))
	view := awaitState(t, in, "train", job.Running)
	if task := view.Tasks[0]; task.Attempt != 2 || task.Failures != 0 || view.Hold != nil {
		t.Errorf("the job is %+v", view)
	}
	history, err := alice.GetJobHistory(ctx, "train", 0)
	check(err)
	if !strings.Contains(eventTexts(history.Events), "KILLING stopped, to be queued again by alice\n") {
		t.Errorf("history:\n%s", eventTexts(history.Events))
	}

	// Nothing is held that has ended.
	check(alice.HoldJob(ctx, "train", "before its end"))
	check(alice.KillJob(ctx, "train"))
	if _, err := alice.WaitForJob(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, alice.HoldJob(ctx, "train", ""), http.StatusConflict, "KILLED already")
	wantProblem(t, alice.RequeueJob(ctx, "train", api.RequeueRequest{}), http.StatusConflict, "KILLED already")
	wantProblem(t, alice.HoldJob(ctx, "none", ""), http.StatusNotFound, "none")
	if _, err := alice.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 1)); err != nil {
		t.Fatal(err)
	}
	if view := awaitState(t, in, "train", job.Running); view.Hold != nil {
		t.Errorf("a new run has the hold of the run before: %+v", view.Hold)
	}
	audit, err := os.ReadFile(g.AuditFile)
	check(err)
	for _, want := range []string{
		`"who":"ops"`, `"path":"/v1/roles/research/hold","role":"research","status":202`,
		`"method":"DELETE","path":"/v1/jobs/train/hold","job":"train@1","role":"research","status":403`,
		`"path":"/v1/jobs/train/requeue","job":"train@1","role":"research","status":202`, `"path":"/v1/users/alice/hold","status":202`,
	} {
		if !strings.Contains(string(audit), want) {
			t.Errorf("the audit log lacks %s:\n%s", want, audit)
		}
	}
}

// eventTexts returns a line of state and message for each event.
func eventTexts(events []api.TaskEvent) string {
	var text strings.Builder
	for _, e := range events {
		text.WriteString(string(e.State) + " " + e.Message + "\n")
	}
	return text.String()
}
