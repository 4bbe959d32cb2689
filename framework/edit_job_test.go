package framework

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// TestEditsOfJobs: owners edit their waiting jobs, which keep their age, and move them to roles to which they may submit.
// Repeated edits succeed whatever If-Match has, and an edit survives a restart.
func TestEditsOfJobs(t *testing.T) {
	g := newGuardedConfig(t)
	cluster, cfg := mesostest.NewCluster(t, 1), SchedulerConfig{
		JournalPath: filepath.Join(t.TempDir(), "journal.db"),
		RolesFile:   writeRolesFile(t, "research: {}\nresearch/vision: {}\nprod: {}\n"),
		API:         g.APIConfig,
	}
	in := startInstance(t, cluster, cfg, client.WithTrustedCA(g.CAFile))
	ctx := longTimeout(t)
	alice, bob, ops := g.clientAs(t, "alice", in), g.clientAs(t, "bob", in), g.clientAs(t, "ops", in)
	submit := func(name string) api.JobView {
		t.Helper()
		view, err := alice.SubmitJob(ctx, frameworktest.JobSpec(name, 1, 1))
		if err != nil {
			t.Fatal(err)
		}
		return view
	}
	submit("running")
	in.Client = alice
	awaitState(t, in, "running", job.Running)
	before := submit("first")
	submit("second")
	edit := map[string]any{"priority": 5, "timeout": "2h", "labels": map[string]any{"team": "vision"}}
	view, err := alice.EditJob(ctx, "second", edit)
	if err != nil || view.Spec.Priority != 5 || view.Spec.Timeout != 2*time.Hour || view.Spec.Labels["team"] != "vision" || view.Revision != 1 {
		t.Errorf("the edited job is %+v, %v", view, err)
	}
	if again, err := alice.EditJob(ctx, "second", edit); err != nil || again.Revision != 1 {
		t.Errorf("the second edit: %+v, %v", again, err)
	}
	if queue, err := alice.ListQueue(ctx); err != nil || len(queue) != 2 || queue[0].Name != "second" {
		t.Errorf("the queue is %+v, %v", queue, err)
	}
	for _, c := range []struct {
		as     *client.Client
		name   string
		edit   map[string]any
		status int
		text   string
	}{
		{bob, "first", map[string]any{"priority": 1}, http.StatusForbidden, "operate on role research"},
		{alice, "first", map[string]any{"role": "prod"}, http.StatusForbidden, "submit on role prod"},
		{ops, "first", map[string]any{"role": "unknown"}, http.StatusUnprocessableEntity, `role "unknown": the scheduler has jobs of`},
		{alice, "running", map[string]any{"role": "research/vision"}, http.StatusConflict, "1 of 1 tasks of job"},
		{alice, "first", map[string]any{"priority": 1 << 40}, http.StatusUnprocessableEntity, "priority"},
		{alice, "first", map[string]any{"image": "x"}, http.StatusUnprocessableEntity, "image: cannot be changed after the submission"},
		{alice, "first", map[string]any{"cpus": -1}, http.StatusUnprocessableEntity, "cpus"},
		{alice, "running", map[string]any{"mem": "1GiB"}, http.StatusConflict, "mem: 1 of 1 tasks of job"},
		{bob, "first", map[string]any{"command": "id"}, http.StatusForbidden, "operate on role research"},
		{alice, "first", map[string]any{"labels": map[string]any{job.AppLabel: "x"}}, http.StatusUnprocessableEntity, job.AppLabel},
		{alice, "first", map[string]any{"gpu_type": "NOSUCH"}, http.StatusUnprocessableEntity, "NOSUCH"},
		{alice, "none", map[string]any{"priority": 1}, http.StatusNotFound, "none"},
	} {
		_, err := c.as.EditJob(ctx, c.name, c.edit)
		wantProblem(t, err, c.status, c.text)
	}
	other := map[string]any{"gpus": 2, "cpus": 0.5, "mem": "1GiB", "command": []string{"train", "--resume"}, "env": map[string]any{"LR": "0.1"}}
	if view, err := alice.EditJob(ctx, "first", other); err != nil || view.Spec.Request.GPUs != 2 || view.Spec.CPUs != 0.5 || view.Spec.MemMiB != 1024 ||
		len(view.Spec.Command) != 2 || view.Spec.Env["LR"] != "0.1" || !view.Submitted.Equal(before.Submitted) {
		t.Errorf("with another program: %+v, %v", view, err)
	}
	if _, err := alice.EditJob(ctx, "first", map[string]any{"role": "research/vision", "gpu_type": []string{"V100", "A100"}}); err != nil {
		t.Error(err)
	}
	in.stopAndWait(t)
	in = startInstance(t, cluster, cfg, client.WithTrustedCA(g.CAFile))
	alice = g.clientAs(t, "alice", in)
	after, err := alice.GetJob(ctx, "first")
	if err != nil || after.Spec.Role != "research/vision" || !after.Submitted.Equal(before.Submitted) || len(after.Spec.Request.Types.Include) != 2 {
		t.Errorf("after a restart the job is %+v, %v", after, err)
	}
	if err := alice.KillJob(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	_, err = alice.EditJob(ctx, "first", map[string]any{"priority": 1})
	wantProblem(t, err, http.StatusConflict, "KILLED already")
}

// TestEditPreconditions: an edit with another ETag is rejected, unless it was carried out already.
func TestEditPreconditions(t *testing.T) {
	in := startWithJournal(t, mesostest.NewCluster(t, 1), filepath.Join(t.TempDir(), "journal.db"))
	if _, err := in.SubmitJob(longTimeout(t), frameworktest.JobSpec("train", 1, 8)); err != nil {
		t.Fatal(err)
	}
	_, tag, _ := sendRequest(t, in, "GET", "/v1/jobs/train", "", "")
	if code, next, body := sendRequest(t, in, "PATCH", "/v1/jobs/train", `{"priority":5}`, tag); code != http.StatusOK || next == tag || next == "" {
		t.Errorf("the edit: %d, %s, %s", code, next, body)
	}
	if code, _, body := sendRequest(t, in, "PATCH", "/v1/jobs/train", `{"priority":5}`, tag); code != http.StatusOK {
		t.Errorf("the same edit with the earlier tag: %d, %s", code, body)
	}
	if code, _, body := sendRequest(t, in, "PATCH", "/v1/jobs/train", `{"priority":6}`, tag); code != http.StatusPreconditionFailed {
		t.Errorf("another edit with the earlier tag: %d, %s", code, body)
	}
}
