package main

import (
	"strings"
	"testing"
	"time"

	"mesos-gpu/internal/term"
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
		"JOB     STATE    TASKS  HEALTHY  GPUS         SUBMITTED  WAITS\n"+
		"train   RUNNING  2/2    -        2 GPUs each  3h ago\n"+
		"queued  WAITING  1      -        no GPU       5m ago     1 of 1 task: no agent has 4 free GPUs\n", "", 0)
	c := jobsOfAllKinds()
	c.command(t, "ps --no-headers -o wide --role research").expect(t, ""+
		"train  RUNNING  2/2  -  2 GPUs each  3h ago  research  0  -  0.0s  "+term.FormatTime(c.jobs[1].Submitted)+"  -  3h00m  -  -\n", "", 0)
}

// sweep is a job of which one task has failed and others run.
func sweep() *job.Job {
	j := fakeJob("sweep", 2*time.Hour, job.Failed, job.Running, job.Running, job.Waiting, job.Finished, job.Finished)
	j.Spec.Owner, j.Spec.Labels = "ada", map[string]string{"team": "vision", "tier": "2"}
	for i := range j.Tasks {
		j.Tasks[i].Started = j.Submitted.Add(30 * time.Minute)
	}
	j.Tasks[3].Started = time.Time{}
	return j
}

// The state of a job with several tasks is that of a live one, with the counts of the others,
// and the filters select what is shown.
func TestStateOfJobWithManyTasks(t *testing.T) {
	c := newFakeCluster(sweep(), fakeJob("over", time.Hour, job.Failed, job.Finished))
	row := "sweep  RUNNING  2/6, 1 waiting, 2 finished, 1 failed  -        no GPU  2h ago\n"
	over := "over  FAILED  1/2, 1 finished  -        no GPU  1h ago\n"
	head := "JOB    STATE    TASKS                                 HEALTHY  GPUS    SUBMITTED  WAITS\n"
	overHead := "JOB   STATE   TASKS            HEALTHY  GPUS    SUBMITTED  WAITS\n"
	none := "No job matches that has not ended: mesos-gpu ps --all also lists jobs that have ended.\n"
	for line, want := range map[string]string{
		"ps":                           head + row,
		"ps --state running":           head + row,
		"ps --state failed":            overHead + over,
		"ps --state waiting":           none,
		"ps --owner ada":               head + row,
		"ps --user ada":                head + row,
		"ps --user eve":                none,
		"ps --label team=vision":       head + row,
		"ps -l team -l tier=2":         head + row,
		"ps --label team=vision,tier=": none,
		"ps --label team=speech":       none,
	} {
		c.command(t, line).expect(t, want, "", 0)
	}
	r := c.command(t, "describe sweep")
	for _, want := range []string{
		"state       RUNNING\n", "tasks       2 running, 1 waiting, 2 finished, 1 failed\n", "queued for  30m00s\n", "duration    1h30m\n",
		"started     " + term.FormatTime(c.jobs[0].Tasks[0].Started) + "\n",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("describe lacks %q:\n%s", want, r.out)
		}
	}
	if strings.Contains(r.out, "ended  ") {
		t.Errorf("a live job has ended:\n%s", r.out)
	}
}

// An ended job has a duration, and one that never started was queued until its end.
func TestJobTimes(t *testing.T) {
	ended, never := fakeJob("ended", time.Hour, job.Finished, job.Finished), fakeJob("never", time.Hour, job.Killed)
	for i := range ended.Tasks {
		ended.Tasks[i].Started, ended.Tasks[i].Ended = ended.Submitted.Add(time.Duration(i+1)*time.Minute), ended.Submitted.Add(time.Duration(i+5)*time.Minute)
	}
	never.Tasks[0].Started, never.Tasks[0].Ended = time.Time{}, never.Submitted.Add(90*time.Second)
	c := newFakeCluster(ended, never)
	r := c.command(t, "describe ended")
	for _, want := range []string{"queued for  1m00s\n", "ended       " + term.FormatTime(ended.Tasks[1].Ended) + "\n", "duration    5m00s\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("describe lacks %q:\n%s", want, r.out)
		}
	}
	if r := c.command(t, "describe never"); !strings.Contains(r.out, "queued for  1m30s\n") || strings.Contains(r.out, "duration") {
		t.Errorf("describe of a job that never started:\n%s", r.out)
	}
}

// After a service is scaled down, ps and describe count and show only the tasks that it
// still wants.
func TestScaledDownServiceIsShownWithoutRetiredTasks(t *testing.T) {
	web := fakeJob("web", time.Hour, job.Killed, job.Running, job.Waiting)
	web.Spec.Service, web.Spec.HealthCheck = &job.Service{}, &job.HealthCheck{}
	web.Tasks[0].KillReason = job.KillByScaling
	healthy := true
	web.Tasks[1].Healthy = &healthy
	c := newFakeCluster(web)
	c.command(t, "ps").expect(t, ""+
		"JOB  STATE    TASKS           HEALTHY  GPUS    SUBMITTED  WAITS\n"+
		"web  RUNNING  1/2, 1 waiting  1 of 2   no GPU  1h ago\n", "", 0)
	out, _, _ := strings.Cut(c.command(t, "describe web").out, "TIME") // history follows
	for _, want := range []string{"wants 2 tasks", "1 running, 1 waiting", "1 of 2", "web.1.1.x", "web.2.1.x"} {
		if !strings.Contains(out, want) {
			t.Errorf("describe lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "web.0.1.x") {
		t.Errorf("describe lists a task by which the service was scaled down:\n%s", out)
	}
}
