package main

import (
	"testing"
	"time"

	"mesos-gpu/job"
)

func TestWait(t *testing.T) {
	good, bad, worse := madeUp("good", time.Hour, job.Finished), madeUp("bad", time.Hour, job.Finished, job.Failed), madeUp("worse", time.Hour, job.Failed)
	three, four := 3, 4
	bad.Tasks[1].ExitCode, worse.Tasks[0].ExitCode = &three, &four
	up, half := madeUp("up", time.Hour, job.Running, job.Finished), madeUp("half", time.Hour, job.Running, job.Waiting)
	for _, test := range []struct {
		line, out, err string
		status         int
	}{
		{"wait good", "job good FINISHED\n", "", 0},
		{"wait good bad worse", "job good FINISHED\njob bad FAILED\njob worse FAILED\n", "", 3},
		{"wait --for running up", "job up RUNNING\n", "", 0},
		{"wait --for running good worse", "job good FINISHED\njob worse FAILED\n", "", 4},
		{"wait --for running half --timeout 50ms", "", "job half is not running yet: see mesos-gpu describe half", 124},
		{"wait up --timeout 50ms", "", "job up is not ended yet", 124},
		{"wait good nobody", "", `there is no job "nobody"`, 1},
		{"wait --for ever good", "", "--for ever: use ended or running", 2},
		{"wait", "", "mesos-gpu wait needs JOB", 2},
	} {
		t.Run(test.line, func(t *testing.T) {
			newCluster(good, bad, worse, up, half).command(t, test.line).wants(t, test.out, test.err, test.status)
		})
	}
}

// What is waited for comes while it is waited for.
func TestWaitIsTold(t *testing.T) {
	for what, want := range map[string]string{"ended": "job a FAILED\n", "running": "job a RUNNING\n"} {
		c := newCluster(madeUp("a", time.Minute, job.Waiting))
		address, ended := c.serve(t), make(chan ran)
		go func() { ended <- commandAt(t, address, "wait", "a", "--for", what) }()
		c.change("a", 0, job.Running, 0)
		status := 0
		if what == "ended" {
			c.change("a", 0, job.Failed, 9)
			status = 9
		}
		(<-ended).wants(t, want, "", status)
	}
}
