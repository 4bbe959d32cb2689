package framework

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// changesOf returns the changes in the history of a job, one a line: kind, state and message, which has the user in By.
func changesOf(t *testing.T, c *client.Client, name string) string {
	t.Helper()
	h, err := c.GetJobHistory(longTimeout(t), name, 0)
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, ev := range h.Events {
		if ev.Change == "" {
			continue
		}
		if ev.Task != "" || ev.By == "" || !strings.Contains(ev.Message, " by "+ev.By) {
			t.Errorf("event %+v", ev)
		}
		lines.WriteString(string(ev.Change) + " " + string(ev.State) + " " + ev.Message + "\n")
	}
	return lines.String()
}

// TestHistoryHasChangesOfUsers checks who edited, held, released, requeued, updated and scaled a job, and what changed. It is
// the same after a failover. Values of variables and arguments do not appear.
func TestHistoryHasChangesOfUsers(t *testing.T) {
	g := newGuardedConfig(t)
	c := mesostest.NewCluster(t, 4)
	cfg := SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), RolesFile: writeRolesFile(t, "research: {}\nresearch/vision: {}\n"), API: g.APIConfig}
	in := startInstance(t, c, cfg, client.WithTrustedCA(g.CAFile))
	ctx := longTimeout(t)
	alice, ops := g.clientAs(t, "alice", in), g.clientAs(t, "ops", in)
	in.Client = ops
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	edit := func(who *client.Client, keys map[string]any) {
		t.Helper()
		_, err := who.EditJob(ctx, "train", keys)
		check(err)
	}

	train := frameworktest.JobSpec("train", 2, 8)
	train.Env = map[string]string{"TOKEN": "before"}
	_, err := alice.SubmitJob(ctx, train)
	check(err)
	edit(alice, map[string]any{"gpus": 2, "priority": 5, "timeout": "2h", "env": map[string]any{"TOKEN": "hidden"}, "command": []string{"hidden"}})
	edit(alice, map[string]any{"gpus": 2, "priority": 5}) // changes nothing
	c.SendOffer()
	awaitState(t, in, "train", job.Running)
	edit(ops, map[string]any{"priority": 7, "labels": map[string]any{"team": "hidden"}})
	check(ops.HoldJob(ctx, "train", "wrong data"))
	check(ops.RequeueJob(ctx, "train", api.RequeueRequest{Reason: "a bug"}))
	awaitState(t, in, "train", job.Waiting)
	edit(ops, map[string]any{"role": "research/vision"})
	check(ops.ReleaseJob(ctx, "train"))
	wantTrain := `edit WAITING edited by alice: gpus 8 to 2, command, env, priority 0 to 5, timeout none to 2h
edit RUNNING edited by ops: labels, priority 5 to 7
hold RUNNING held by ops: wrong data
requeue KILLING queued again by ops: a bug
edit WAITING edited by ops: role research to role research/vision
release WAITING released by ops
`

	web := frameworktest.ServiceSpec("web", 1)
	web.Role = "research"
	_, err = alice.SubmitJob(ctx, web)
	check(err)
	c.SendOffer()
	awaitState(t, in, "web", job.Running)
	check(alice.ScaleJob(ctx, "web", 2))
	next := web
	next.Env, next.Priority, next.Tasks = map[string]string{"TOKEN": "hidden"}, 3, 3
	_, err = ops.UpdateJob(ctx, next)
	check(err)
	_, err = ops.UpdateJob(ctx, next) // changes nothing
	check(err)
	wantWeb := `scale RUNNING scaled from 1 to 2 tasks by alice
apply RUNNING version 1 applied by ops: env, priority 0 to 3
scale RUNNING scaled from 2 to 3 tasks by ops
`
	compare := func() {
		t.Helper()
		for name, want := range map[string]string{"train": wantTrain, "web": wantWeb} {
			if diff := cmp.Diff(want, changesOf(t, ops, name)); diff != "" {
				t.Errorf("%s (-want +got)\n%s", name, diff)
			}
			if view, err := ops.GetJob(ctx, name); err != nil || len(view.Changes) != strings.Count(want, "\n") {
				t.Errorf("%s has the changes %+v, %v", name, view.Changes, err)
			}
		}
		jobs, err := ops.ListJobs(ctx)
		check(err)
		for i := range jobs {
			if jobs[i].Changes != nil {
				t.Errorf("the list has the changes %+v", jobs[i].Changes)
			}
		}
	}
	compare()
	in.stopAndWait(t)
	in = startInstance(t, c, cfg, client.WithTrustedCA(g.CAFile))
	ops = g.clientAs(t, "ops", in)
	compare()
}
