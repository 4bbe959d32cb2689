package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
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
	if s := *edited.Spec; s.Timeout != 2*time.Hour || s.Retries != 3 || s.Labels["team"] != "vision" || !edited.Submitted.Equal(view.Submitted) {
		t.Errorf("the edited job is %+v", edited)
	}
	if r := c.run("edit", "held", "--set", "image=x"); r.code == 0 || !strings.Contains(r.err, "image: cannot be changed after the submission") {
		t.Errorf("edit of the image: %+v", r)
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
		c.mustRun("submit", writeJobFile(t, name,
			"name: "+name+"\nrole: from\ncpus: 0.1\nmem: 256MiB\ncontainer: mesos\nkill_grace: 1s\ncommand: exec sleep 1000\n"+keys))
	}
	submit("goes-on", "")
	c.mustRun("wait", "--for", "running", "goes-on")
	c.mustRun("hold", "--role", "from", "--reason", "pause")
	submit("moves", "gpus: 1\ngpu_type: K80\ntasks: 2\n")
	waiting := c.awaitJob("moves", func(v *api.JobView) bool { return v.WaitReason == "role from is held; pause" })
	if out := c.mustRun("edit", "moves", "--role", "to", "--gpu-type", "K80,V100", "--set", "max_parallel=1"); !strings.Contains(out,
		"job moves edited: gpu_type, max_parallel, role") {
		t.Errorf("edit prints %q", out)
	}
	moved := c.awaitJob("moves", func(v *api.JobView) bool { return v.Tasks[0].State == job.Running })
	if s := *moved.Spec; s.Role != "to" || s.MaxParallel != 1 || !moved.Submitted.Equal(waiting.Submitted) || moved.Tasks[1].State != job.Waiting {
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

	c.mustRun("submit", writeJobFile(t, "limited",
		"name: limited\ncpus: 0.1\nmem: 256MiB\ncontainer: mesos\ntimeout: 6s\non_timeout: requeue\nwarn: {file: warned, before: "+
			"4s}\ncommand: test $MESOS_GPU_RESTART_COUNT = 1 && exit 0; until [ -s warned ]; do sleep 0.1; done; echo warned; exit 3\n"))
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

// warnedRoles is the roles file of checkWarnedStops.
const warnedRoles = "guests: {weight: 1}\nprod: {deserved: V100=2}\n"

// warnedJob is a job of one task with all GPUs that is warned by HTTP. It leaves when the test has received the warning.
type warnedJob struct {
	t      *testing.T
	c      *cluster
	folder string
}

func startWarnedJob(t *testing.T, c *cluster) *warnedJob {
	t.Helper()
	w := &warnedJob{t, c, t.TempDir()}
	if err := os.Chmod(w.folder, 0o777); err != nil {
		t.Fatal(err)
	}
	w.submit("warned", "guests", "gpus: 4\nports: 1\npreemptible: true\nwarn: {http: /warn, before: 10m}", fmt.Sprintf("cd %s; trap 'touch terminated' TERM; until [ -e saved-$MESOS_GPU_RESTART_COUNT ]; do sleep 0.1; done; exit 75",
		w.folder))
	return w
}

func (w *warnedJob) submit(name, role, keys, command string) {
	w.t.Helper()
	w.c.mustRun("submit", writeJobFile(w.t, name, fmt.Sprintf("name: %s\nrole: %s\ncpus: 0.1\nmem: 256MiB\ncontainer: mesos\nkill_grace: 1s\n%s\ncommand: %s\n",
		name, role, keys, command)))
}

// awaitWarning waits until the task is warned because of what stop does, and is queued again without a failure and without SIGTERM.
func (w *warnedJob) awaitWarning(stop func(agent *job.Task)) {
	w.t.Helper()
	before := w.c.awaitJob("warned", func(v *api.JobView) bool { return v.Tasks[0].State == job.Running })
	task := before.Tasks[0]
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", task.Ports[0]))
	if err != nil {
		w.t.Fatal(err)
	}
	requests := make(chan string, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { requests <- r.Method + " " + r.URL.Path }))
	server.Listener.Close()
	server.Listener = l
	server.Start()
	defer server.Close()
	stop(&task)
	select {
	case got := <-requests:
		if got != "POST /warn" {
			w.t.Errorf("the warning is %s", got)
		}
	case <-time.After(waitTimeout):
		w.t.Fatal("no warning")
	}
	if err := os.WriteFile(filepath.Join(w.folder, fmt.Sprint("saved-", task.Attempt-1)), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
	after := w.c.awaitJob("warned", func(v *api.JobView) bool { return v.Tasks[0].Attempt == task.Attempt+1 })
	if _, err := os.Stat(filepath.Join(w.folder, "terminated")); err == nil || after.Tasks[0].Failures != 0 {
		w.t.Errorf("SIGTERM was sent: %t, the task is %+v", err == nil, after.Tasks[0])
	}
}

// checkWarnedStops checks the warnings of a task that is stopped for a job of higher priority, for a drain of its agent, and for a
// role that reclaims its GPUs. The warned job goes on.
func checkWarnedStops(t *testing.T, c *cluster) *warnedJob {
	t.Helper()
	w := startWarnedJob(t, c)
	w.awaitWarning(func(*job.Task) { w.submit("urgent", "guests", "gpus: 1\npriority: 5", "exec sleep 1000") })
	c.mustRun("wait", "--for", "running", "urgent")
	c.mustRun("kill", "urgent")
	var host string
	w.awaitWarning(func(task *job.Task) {
		host = task.Hostname
		c.mustRun("drain", host)
	})
	c.mustRun("uncordon", host)
	w.awaitWarning(func(*job.Task) { w.submit("claim", "prod", "gpus: 2", "exec sleep 1000") })
	c.mustRun("wait", "--for", "running", "claim")
	c.mustRun("kill", "claim")
	return w
}

// checkPreemptionDelays checks that a task is not preempted before its min_run_time, nor before the preempt_after of the other job.
func checkPreemptionDelays(t *testing.T, w *warnedJob) {
	t.Helper()
	const delay = 3 * time.Second
	for _, c := range []struct{ name, victim, preemptor string }{
		{"min-run-time", fmt.Sprint("min_run_time: ", delay), "priority: 5"},
		{"preempt-after", "priority: 0", fmt.Sprint("priority: 5\npreempt_after: ", delay)},
	} {
		w.submit(c.name+"-victim", "guests", "gpus: 4\npreemptible: true\n"+c.victim, "exec sleep 1000")
		victim := w.c.awaitJob(c.name+"-victim", func(v *api.JobView) bool { return v.Tasks[0].State == job.Running })
		w.submit(c.name, "guests", "gpus: 1\n"+c.preemptor, "exec sleep 1000")
		other := w.c.awaitJob(c.name, func(v *api.JobView) bool { return v.Tasks[0].State == job.Running })
		from := victim.Tasks[0].Started
		if c.name == "preempt-after" {
			from = other.Submitted
		}
		if took := other.Tasks[0].Started.Sub(from); took < delay || took > time.Minute {
			t.Errorf("%s: the other job starts after %s, want %s or a little more", c.name, took, delay)
		}
		w.c.mustRun("kill", c.name, c.name+"-victim")
		w.c.awaitJobEnd(c.name)
		w.c.awaitJobEnd(c.name + "-victim")
	}
}

// TestWarnedStops checks warnings by HTTP, and delays of preemptions, on the embedded cluster.
func TestWarnedStops(t *testing.T) {
	t.Parallel()
	w := checkWarnedStops(t, startCluster(t, "--roles", writeJobFile(t, "roles.yaml", warnedRoles)))
	w.c.mustRun("kill", "--force", "warned")
	w.c.awaitJobEnd("warned")
	checkPreemptionDelays(t, w)
}
