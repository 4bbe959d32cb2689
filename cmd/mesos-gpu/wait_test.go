package main

import (
	"testing"
	"time"

	"mesos-gpu/job"
)

func TestWait(t *testing.T) {
	good, bad, worse := fakeJob("good", time.Hour, job.Finished), fakeJob("bad", time.Hour, job.Finished, job.Failed), fakeJob("worse", time.Hour, job.Failed)
	three, four := 3, 4
	bad.Tasks[1].ExitCode, worse.Tasks[0].ExitCode = &three, &four
	up, half := fakeJob("up", time.Hour, job.Running, job.Finished), fakeJob("half", time.Hour, job.Running, job.Waiting)
	for _, test := range []struct {
		line, out, err string
		status         int
	}{
		{"wait good", "job good FINISHED\n", "", 0},
		{"wait good bad worse", "job good FINISHED\njob bad FAILED\njob worse FAILED\n",
			"task bad.1.1.x FAILED: exited with status 3\nmesos-gpu: task worse.0.1.x FAILED: exited with status 4\n", 3},
		{"wait --for running up", "job up RUNNING\n", "", 0},
		{"wait --for running good worse", "job good FINISHED\njob worse FAILED\n", "task worse.0.1.x FAILED: exited with status 4\n", 4},
		{"wait --for running half --timeout 50ms", "", "job half is not running yet: see mesos-gpu describe half", 124},
		{"wait up --timeout 50ms", "", "job up is not ended yet", 124},
		{"wait good unknown", "", `there is no job "unknown"`, 1},
		{"wait --for idle good", "", "--for idle: use ended or running", 2},
		{"wait", "", "mesos-gpu: wait needs JOB", 2},
	} {
		t.Run(test.line, func(t *testing.T) {
			newFakeCluster(good, bad, worse, up, half).command(t, test.line).expect(t, test.out, test.err, test.status)
		})
	}
}

// The end by a user is one line, whatever happened to the tasks before.
func TestWaitForKilledJob(t *testing.T) {
	web := fakeJob("web", time.Hour, job.Killed, job.Killed)
	for i := range web.Tasks {
		web.Tasks[i].KillRequested = time.Now()
	}
	web.Tasks[0].KilledBy, web.Tasks[0].Message = "ada", "killed"
	web.Tasks[1].KillReason, web.Tasks[1].Message = job.KillByEarlierScaling, "its service was scaled down"
	c := newFakeCluster(web)
	c.command(t, "wait web").expect(t, "job web KILLED\n", "mesos-gpu: job web was killed by ada\n", 1)
	if r := c.command(t, "wait web"); r.err != "mesos-gpu: job web was killed by ada\n" {
		t.Errorf("standard error is %q", r.err)
	}
}

// The job runs or ends while wait waits for it.
func TestWaitTimeout(t *testing.T) {
	for what, want := range map[string]string{"ended": "job a FAILED\n", "running": "job a RUNNING\n"} {
		c := newFakeCluster(fakeJob("a", time.Minute, job.Waiting))
		address, ended := c.serve(t), make(chan commandRun)
		go func() { ended <- commandAt(t, address, "wait", "a", "--for", what) }()
		c.changeTask("a", 0, job.Running, 0)
		status, errs := 0, ""
		if what == "ended" {
			c.changeTask("a", 0, job.Failed, 9)
			status, errs = 9, "task a.0.1.x FAILED: exited with status 9\n"
		}
		(<-ended).expect(t, want, errs, status)
	}
}
