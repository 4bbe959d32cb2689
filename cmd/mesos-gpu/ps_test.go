package main

import (
	"strings"
	"testing"
	"time"

	"mesos-gpu/job"
)

func jobsOfAllKinds() *fakeCluster {
	train := fakeJob("train", 3*time.Hour, job.Running, job.Running)
	train.Spec.Role, train.Spec.Request.GPUs = "research", 2
	queued := fakeJob("queued", 5*time.Minute, job.Waiting)
	queued.Spec.Priority = 7
	c := newFakeCluster(fakeJob("old", 49*time.Hour, job.Finished), train, fakeJob("broken", time.Hour, job.Failed), queued)
	c.waits = map[string]string{"queued": "1 of 1 task: no agent has 4 free GPUs"}
	return c
}

// ps lists live jobs by default, and jobs selected by flags.
func TestJobSelection(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"ps", "train queued"},
		{"ps -a", "old train broken queued"},
		{"ps --all --role research", "train"},
		{"ps --state waiting,running", "train queued"},
		{"ps --state FAILED", "broken"}, // includes ended jobs without -a
		{"ps --name ??d", ""},
		{"ps -a --name *ed", "queued"},
		{"ps -a --sort name", "broken old queued train"},
		{"ps -a --sort -submitted", "queued broken train old"},
		{"ps -a --sort -priority", "queued old train broken"},
		{"ps -a --sort -gpus", "train old broken queued"},
		{"ps -a --sort state", "queued train old broken"},
	} {
		t.Run(test.line, func(t *testing.T) {
			r := jobsOfAllKinds().command(t, test.line+" --no-headers")
			var got []string
			for line := range strings.Lines(r.out) {
				got = append(got, strings.Fields(line)[0])
			}
			if strings.Join(got, " ") != test.want || r.status != 0 {
				t.Errorf("got %v, status %d %s, want %s", got, r.status, r.err, test.want)
			}
		})
	}
}

func TestInvalidSelection(t *testing.T) {
	for line, want := range map[string]string{
		"ps --state running,gone": "--state gone: use WAITING, LAUNCHING,",
		"ps --name [a":            "--name [a: a bracket is not closed",
		"ps --sort size":          "--sort size: use gpus, name, priority, role, state or submitted",
		"ps -o xml":               `invalid argument "xml" for "-o, --output" flag: use table, wide, json or yaml`,
	} {
		newFakeCluster().command(t, line).expect(t, "", want, 2)
	}
}

func TestJobsAreListed(t *testing.T) {
	jobsOfAllKinds().command(t, "ps").expect(t, ""+
		"JOB     STATE    TASKS  HEALTHY  GPUS    SUBMITTED  WAITS\n"+
		"train   RUNNING  2      -        2 GPUs  3h ago\n"+
		"queued  WAITING  1      -        no GPU  5m ago     1 of 1 task: no agent has 4 free GPUs\n", "", 0)
	jobsOfAllKinds().command(t, "ps --no-headers -o wide --role research").expect(t, ""+
		"train  RUNNING  2  -  2 GPUs  3h ago  research  0  -\n", "", 0)
}
