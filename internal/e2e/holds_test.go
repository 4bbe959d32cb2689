package e2e

import (
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// checkHolds holds, edits, releases and queues a job again by the commands, and a role with its running tasks.
func checkHolds(t *testing.T, c *cluster) {
	t.Helper()
	file := writeJobFile(t, "held", "name: held\ncpus: 0.1\nmem: 256MiB\ncontainer: mesos\nkill_grace: 1s\ncommand: exec sleep 1000\n")
	c.mustRun("submit", file)
	c.mustRun("wait", "--for", "running", "held")
	if out := c.mustRun("requeue", "--hold", "--reason", "wrong data", "held"); out != "job held: queued again\n" {
		t.Errorf("requeue prints %q", out)
	}
	view := c.awaitJob("held", func(v *api.JobView) bool { return v.State == job.Waiting })
	if view.Tasks[0].Attempt != 2 || view.Hold == nil || view.WaitReason != "held; wrong data" {
		t.Errorf("the job is %+v", view)
	}
	for _, command := range [][]string{{"ps"}, {"queue"}, {"describe", "held"}} {
		if out := c.mustRun(command...); !strings.Contains(out, "held; wrong data") {
			t.Errorf("%s prints %q", command, out)
		}
	}
	if out := c.mustRun("edit", "held", "--priority", "7", "--timeout", "2h", "--label", "team=vision", "--set", "retries=3"); out != "job held edited: labels, priority, retries, timeout\n" {
		t.Errorf("edit prints %q", out)
	}
	edited := c.awaitJob("held", func(v *api.JobView) bool { return v.Spec.Priority == 7 })
	if s := edited.Spec; s.Timeout != 2*time.Hour || s.Retries != 3 || s.Labels["team"] != "vision" || !edited.Submitted.Equal(view.Submitted) {
		t.Errorf("the edited job is %+v", edited)
	}
	if r := c.run("edit", "held", "--set", "gpus=2"); r.code == 0 || !strings.Contains(r.err, "gpus: cannot be changed after the submission") {
		t.Errorf("edit of the GPUs: %+v", r)
	}
	if out := c.mustRun("release", "held"); out != "job held: released\n" {
		t.Errorf("release prints %q", out)
	}
	c.mustRun("wait", "--for", "running", "held")
	if out := c.mustRun("hold", "--role", "*", "--user", "carol", "--drain", "--reason", "budget"); out != "user carol: held\nrole *: held\n" {
		t.Errorf("hold prints %q", out)
	}
	view = c.awaitJob("held", func(v *api.JobView) bool { return v.State == job.Waiting })
	if view.Tasks[0].Attempt != 3 || view.WaitReason != "role * is held; budget" {
		t.Errorf("the job is %+v", view)
	}
	if out := c.mustRun("holds"); !strings.Contains(out, "role  *") || !strings.Contains(out, "user  carol") {
		t.Errorf("holds prints %q", out)
	}
	c.mustRun("release", "--role", "*", "--user", "carol")
	c.mustRun("wait", "--for", "running", "held")
	c.mustRun("kill", "held")
	c.awaitJobEnd("held")
	if r := c.run("hold", "held"); r.code == 0 || !strings.Contains(r.err, `job "held" is KILLED already`) {
		t.Errorf("hold of an ended job: %+v", r)
	}
	if r := c.run("hold", "--drain", "held"); r.code != 2 || !strings.Contains(r.err, "requeue --hold") {
		t.Errorf("hold --drain of a job: %+v", r)
	}
}

// TestHoldsAndRequeues checks holds and requeues on the embedded cluster.
func TestHoldsAndRequeues(t *testing.T) {
	t.Parallel()
	checkHolds(t, startCluster(t))
}
