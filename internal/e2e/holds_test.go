package e2e

import (
	"fmt"
	"os"
	"path/filepath"
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

// movingRoles is the roles file of checkMoves.
const movingRoles = "from: {}\nto: {}\n"

// checkMoves pauses a role without draining it, and moves a waiting job of it to another role, with another list of GPU types and
// limit of parallel tasks. The job runs there with its age, and a running task of the paused role goes on.
func checkMoves(t *testing.T, c *cluster) {
	t.Helper()
	submit := func(name, keys string) {
		t.Helper()
		c.mustRun("submit", writeJobFile(t, name, "name: "+name+"\nrole: from\ncpus: 0.1\nmem: 256MiB\ncontainer: mesos\nkill_grace: 1s\ncommand: exec sleep 1000\n"+keys))
	}
	submit("goes-on", "")
	c.mustRun("wait", "--for", "running", "goes-on")
	c.mustRun("hold", "--role", "from", "--reason", "pause")
	submit("moves", "gpus: 1\ngpu_type: K80\ntasks: 2\n")
	waiting := c.awaitJob("moves", func(v *api.JobView) bool { return v.WaitReason == "role from is held; pause" })
	if out := c.mustRun("edit", "moves", "--role", "to", "--gpu-type", "K80,V100", "--set", "max_parallel=1"); !strings.Contains(out, "job moves edited: gpu_type, max_parallel, role") {
		t.Errorf("edit prints %q", out)
	}
	moved := c.awaitJob("moves", func(v *api.JobView) bool { return v.Tasks[0].State == job.Running })
	if s := moved.Spec; s.Role != "to" || s.MaxParallel != 1 || !moved.Submitted.Equal(waiting.Submitted) || moved.Tasks[1].State != job.Waiting {
		t.Errorf("the moved job is %+v", moved)
	}
	if v := c.awaitJob("goes-on", func(v *api.JobView) bool { return true }); v.State != job.Running || v.Tasks[0].Attempt != 1 {
		t.Errorf("the running job of the paused role is %+v", v)
	}
	if r := c.run("edit", "goes-on", "--role", "to"); r.code == 0 {
		t.Errorf("a job with a running task moves to another role: %+v", r)
	}
	c.mustRun("release", "--role", "from")
	c.mustRun("kill", "moves", "goes-on")
	c.awaitJobEnd("moves")
	c.awaitJobEnd("goes-on")
}

// TestMovesBetweenRoles checks paused roles and moves on the embedded cluster.
func TestMovesBetweenRoles(t *testing.T) {
	t.Parallel()
	checkMoves(t, startCluster(t, "--roles", writeJobFile(t, "roles.yaml", movingRoles)))
}

// checkWarnings preempts the example that saves its state when it is warned. The next attempt continues with the next step: no
// step is lost or repeated. It also warns a task by a file before its timeout, at which it is queued again.
func checkWarnings(t *testing.T, c *cluster) {
	t.Helper()
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	c.awaitOutput(`"id"`, "agents", "-o", "json")
	var agents []api.AgentSummary // one, of which the example takes all GPUs
	decodeJSON(t, c.mustRun("agents", "-o", "json"), &agents)
	example := filepath.Join("..", "..", "examples", "checkpoint.yaml")
	c.mustRun("submit", "--set", "checkpoint_dir="+folder, "--set", fmt.Sprint("gpus=", agents[0].GPUs), "-e", "STEPS=1000000", example)
	c.awaitOutput("step 3", "logs", "--stdout", "checkpoint")
	started := time.Now()
	c.mustRun("submit", writeJobFile(t, "urgent", "name: urgent\ngpus: 1\npriority: 5\ncpus: 0.1\nmem: 256MiB\ncontainer: mesos\ncommand: exec sleep 1000\n"))
	c.mustRun("wait", "--for", "running", "urgent")
	if took := time.Since(started); took > 25*time.Second {
		t.Errorf("the task left %s after its warning, although it had saved its state", took)
	}
	first := c.awaitJob("checkpoint", func(v *api.JobView) bool { return v.State == job.Waiting })
	c.mustRun("kill", "urgent")
	c.awaitOutput("restart 1 begins", "logs", "--stdout", "checkpoint")
	text := c.mustRun("logs", "--stdout", "--since", "1h", "checkpoint") // with the first attempt
	_, after, _ := strings.Cut(text, "saved step ")
	saved, _, _ := strings.Cut(after, "\n")
	if saved == "" || !strings.Contains(text, "restart 1 begins after step "+saved+"\n") || first.Tasks[0].Failures != 0 {
		t.Errorf("the attempts print, with the task %+v:\n%s", first.Tasks[0], text)
	}
	c.mustRun("kill", "checkpoint")
	c.awaitJobEnd("checkpoint")

	c.mustRun("submit", writeJobFile(t, "limited", "name: limited\ncpus: 0.1\nmem: 256MiB\ncontainer: mesos\ntimeout: 6s\non_timeout: requeue\nwarn: {file: warned, before: 4s}\ncommand: test $MESOS_GPU_RESTART_COUNT = 1 && exit 0; until [ -s warned ]; do sleep 0.1; done; echo warned; exit 3\n"))
	view := c.awaitJob("limited", func(v *api.JobView) bool { return v.Terminal })
	if view.State != job.Finished || view.Tasks[0].Attempt != 2 || view.Tasks[0].Failures != 0 {
		t.Errorf("the job with the timeout is %+v", view)
	}
	if text := c.mustRun("logs", "--stdout", "--since", "1h", "limited"); !strings.Contains(text, "warned") {
		t.Errorf("the job with the timeout did not find the file of its warning; it prints %q", text)
	}
}

// TestWarnings checks warnings on the embedded cluster.
func TestWarnings(t *testing.T) {
	t.Parallel()
	checkWarnings(t, startCluster(t))
}

// TestHoldsAndRequeues checks holds and requeues on the embedded cluster.
func TestHoldsAndRequeues(t *testing.T) {
	t.Parallel()
	checkHolds(t, startCluster(t))
}
