package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mesos-gpu/job"
)

// clusterWithFailure has a job whose second task failed first.
func clusterWithFailure() *fakeCluster {
	c := newFakeCluster(fakeJob("train", time.Hour, job.Failed, job.Failed, job.Finished, job.Killed))
	one, three, killed := 1, 137, 143
	first, second := &c.jobs[0].Tasks[0], &c.jobs[0].Tasks[1]
	first.ExitCode, first.Ended, first.Message = &one, time.Now(), "exited with status 1"
	second.ExitCode, second.Ended, second.Message = &three, time.Now().Add(-time.Minute), "killed by signal 9 (SIGKILL)"
	c.jobs[0].Tasks[3].ExitCode = &killed
	c.jobs[0].Spec.MemMiB = 50
	var lines strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&lines, "line %d\r\n", i)
	}
	c.logs = map[string]string{}
	c.errors = map[string]string{"train.0.1.x": "other\n", "train.1.1.x": lines.String() + "\x1b[2JCUDA error\n"}
	return c
}

const failureReasons = "mesos-gpu: task train.1.1.x FAILED: killed by signal 9 (SIGKILL); its memory limit is 50 MiB\n" +
	"mesos-gpu: task train.0.1.x FAILED: exited with status 1\n"

func lastErrorLines() string {
	text := "Last lines of the standard error of task train.1.1.x:\n"
	for i := 1991; i < 2000; i++ {
		text += fmt.Sprintf("  line %d\n", i)
	}
	return text + "  \\x1b[2JCUDA error\n"
}

// wait and describe show why a job failed, and the last lines of the standard error of the task that failed first.
func TestReasonsOfFailure(t *testing.T) {
	c := clusterWithFailure()
	r := c.command(t, "wait train")
	if want := failureReasons + lastErrorLines(); r.err != want || r.out != "job train FAILED\n" || r.status != 1 {
		t.Errorf("wait: status %d, %q, and\n%swant\n%s", r.status, r.out, r.err, want)
	}
	r = c.command(t, "describe train")
	if !strings.HasSuffix(r.out, "\n\n"+lastErrorLines()) || r.err != "" || !strings.Contains(r.out, "its memory limit is 50 MiB\n") {
		t.Errorf("describe: %s%s", r.out, r.err)
	}
	if r = c.command(t, "describe train -o json"); strings.Contains(r.out, "Last lines") {
		t.Errorf("JSON with output: %s", r.out)
	}
	c.errors = nil
	if r = c.command(t, "wait train"); r.err != failureReasons {
		t.Errorf("without standard error: %q", r.err)
	}
}

// A task that waits for another attempt shows the standard error of the last one.
func TestStandardErrorOfLastAttempt(t *testing.T) {
	c := newFakeCluster(fakeJob("web", time.Hour, job.Waiting))
	one := 1
	c.past = map[string][]job.Task{"web": {{ID: "web.0.0.x", Job: "web", State: job.Failed, ExitCode: &one, AgentID: "a"}}}
	c.errors = map[string]string{"web.0.0.x": "address in use\n"}
	if r := c.command(t, "describe web"); !strings.HasSuffix(r.out, "Last lines of the standard error of task web.0.0.x:\n  address in use\n") {
		t.Errorf("describe: %s", r.out)
	}
}

// run prints the reason of a failure after the output of the job.
func TestRunPrintsReason(t *testing.T) {
	c := newFakeCluster()
	c.logs, c.errors = map[string]string{}, map[string]string{"a.0.1.x": "Traceback\n"}
	address, ended := c.serve(t), make(chan commandRun)
	go func() { ended <- commandAt(t, address, "run", "--name", "a", "--", "train") }()
	c.awaitJob("a")
	c.changeTask("a", 0, job.Failed, 139)
	r := <-ended
	if r.err != "Traceback\nmesos-gpu: task a.0.1.x FAILED: exited with status 139 (SIGSEGV)\n" || r.status != 139 {
		t.Errorf("status %d, printed %q", r.status, r.err)
	}
}

// Many failed tasks are counted.
func TestManyFailuresAreCounted(t *testing.T) {
	states := make([]job.State, 25)
	for i := range states {
		states[i] = job.Failed
	}
	c := newFakeCluster(fakeJob("sweep", time.Hour, states...))
	r := c.command(t, "wait sweep")
	if n := strings.Count(r.err, "FAILED"); n != 10 || !strings.HasSuffix(r.err, "mesos-gpu: 15 more tasks failed: see mesos-gpu describe sweep\n") {
		t.Errorf("%d reasons: %s", n, r.err)
	}
}
