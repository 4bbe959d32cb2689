package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
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
		{"ps -a", "queued broken train old"},
		{"ps --all --role research", "train"},
		{"ps --state waiting,running", "train queued"},
		{"ps --state FAILED", "broken"}, // includes ended jobs without -a
		{"ps --name ??d", ""},
		{"ps -a --name *ed", "queued"},
		{"ps -a --sort name", "broken old queued train"},
		{"ps -a --sort -submitted", "queued broken train old"},
		{"ps -a --sort -priority", "queued old train broken"},
		{"ps -a --sort -gpus", "train old broken queued"},
		{"ps -a --sort submitted", "old train broken queued"},
		{"ps -a --sort submitted --limit 2", "old train"},
		{"ps -a --limit 2", "queued broken"},
		{"ps --limit 1", "train"},
		{"ps -q", "train queued"},
		{"ps -a -q --name t*", "train"},
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
		"ps --limit -1":           "--limit -1: must be at least 0",
		"ps --me --owner ada":     "--me and --owner: use one of them",
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

// A table with ended jobs has the newest ones, and says if it leaves out others. Programs get all.
func TestEndedJobsAreLimited(t *testing.T) {
	c := newFakeCluster()
	for i := range 130 {
		c.jobs = append(c.jobs, fakeJob(fmt.Sprintf("job-%d", i), time.Hour-time.Duration(i)*time.Second, job.Finished))
	}
	r := c.command(t, "ps -a --no-headers")
	if n := strings.Count(r.out, "\n"); n != 100 || !strings.HasPrefix(r.out, "job-129 ") ||
		r.err != "mesos-gpu: only the first 100 jobs are listed: --limit 0 lists all\n" {
		t.Errorf("%d lines, standard error %q:\n%.100s", n, r.err, r.out)
	}
	for line, want := range map[string]int{
		"ps -a --no-headers --limit 0": 130, "ps -a -q": 130, "ps -a -q --limit 5": 5, "ps --state finished --no-headers": 100, "ps -a --no-headers --sort name": 100,
	} {
		if r := c.command(t, line); strings.Count(r.out, "\n") != want {
			t.Errorf("%s: %d lines, want %d", line, strings.Count(r.out, "\n"), want)
		}
	}
	var all []struct{}
	if r := c.command(t, "ps -a -o json"); json.Unmarshal([]byte(r.out), &all) != nil || len(all) != 130 {
		t.Errorf("%d jobs for programs, %s", len(all), r.err)
	}
}

// Each task is in one of the numbers, also while it starts or is being killed.
func TestTasksAreInOneNumber(t *testing.T) {
	states := []job.State{job.Running, job.Launching, job.Launching, job.Staging, job.Starting, job.Killing, job.Unreachable, job.Killed, job.Lost}
	newFakeCluster(fakeJob("a", time.Hour, states...)).command(t, "ps --no-headers").expect(t,
		"a  RUNNING  1/9, 4 starting, 1 unreachable, 1 killing, 1 killed, 1 lost  -  no GPU  1h ago\n", "", 0)
	newFakeCluster(fakeJob("b", time.Hour, job.Staging, job.Launching, job.Waiting)).command(t, "ps --no-headers").expect(t,
		"b  STAGING  2/3, 1 waiting  -  no GPU  1h ago\n", "", 0)
}

// kill ends the live jobs that flags select, after a question with their number.
func TestKillSelectedJobs(t *testing.T) {
	cluster := func() *fakeCluster {
		c := jobsOfAllKinds()
		c.jobs = append(c.jobs, sweep())
		return c
	}
	killed := "job train: kill requested\njob queued: kill requested\njob sweep: kill requested\n"
	for _, test := range []struct {
		line, input, out, err string
		status                int
	}{
		{"kill --me", "y\n", killed, "mesos-gpu: end 3 jobs: train, queued, sweep [y/N] ", 0},
		{"kill --me", "n\n", "", "mesos-gpu: nothing was done\n", 1},
		{"kill --me", "", "", "mesos-gpu: nothing was done: answer with y, or give --yes\n", 1},
		{"kill --me --yes", "", killed, "", 0},
		{"kill --owner ada --yes", "", "job sweep: kill requested\n", "", 0},
		{"kill --user ada -y --state running", "", "job sweep: kill requested\n", "", 0},
		{"kill --state waiting -y", "", "job queued: kill requested\n", "", 0},
		{"kill --role research -y", "", "job train: kill requested\n", "", 0},
		{"kill --label team=vision -y", "", "job sweep: kill requested\n", "", 0},
		{"kill --me -y q* t*", "", "job queued: kill requested\njob train: kill requested\n", "", 0},
		{"kill --owner eve -y", "", "", "mesos-gpu: no job that has not ended matches\n", 1},
		{"kill --state failed -y", "", "", "mesos-gpu: no job that has not ended matches\n", 1},
		{"kill --state gone", "", "", "--state gone: use WAITING", 2},
	} {
		t.Run(test.line, func(t *testing.T) {
			cluster().commandWithInput(t, test.line, test.input).expect(t, test.out, test.err, test.status)
		})
	}
}

// --me selects the jobs of the user to whom the token belongs. Without a token it is an error if the scheduler requires one.
func TestMyJobs(t *testing.T) {
	ada, eve := fakeJob("a", time.Hour, job.Running), fakeJob("b", time.Hour, job.Running)
	ada.Spec.Owner, eve.Spec.Owner = "ada", "eve"
	for answer, want := range map[string]string{
		`{"user": "ada", "authenticated": true, "access_control": true}`: "a\n",
		`{"user": "", "authenticated": true, "access_control": false}`:   "a\nb\n",
		`{"user": "", "authenticated": false, "access_control": true}`:   "",
	} {
		backend := newFakeCluster(ada, eve).serve(t)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/whoami" {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(answer))
				return
			}
			http.Redirect(w, r, backend+r.URL.String(), http.StatusTemporaryRedirect)
		}))
		t.Cleanup(s.Close)
		r := commandAt(t, s.URL, "ps", "--me", "-q")
		if r.out != want || (want == "") != strings.Contains(r.err, "--me: the scheduler does not know who you are") {
			t.Errorf("%s: got %+v", answer, r)
		}
	}
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
