package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

// trainRuns has a failed and a finished run of "train", and a job of another name.
func trainRuns(t *testing.T) *fakeCluster {
	first, second := fakeJob("train", 3*time.Hour, job.Failed), fakeJob("train", time.Hour, job.Finished)
	for i, j := range []*job.Job{first, second} {
		j.Run = i + 1
		j.Spec.Command, j.Spec.Env = []string{"python", "train.py"}, map[string]string{"EPOCHS": []string{"1", "2"}[i]}
		if err := j.Spec.Complete(); err != nil {
			t.Fatal(err)
		}
		j.Tasks[0].ID = j.RunID().String() + ".0.1.x"
		j.Tasks[0].Ended = j.Submitted.Add(10 * time.Minute)
	}
	code := 3
	first.Tasks[0].ExitCode, first.Tasks[0].Message = &code, "exit status 3"
	first.Spec.Owner = "ada"
	c := newFakeCluster(first, second, fakeJob("other", time.Minute, job.Running))
	c.logs = map[string]string{"train@1.0.1.x": "one\n", "train@2.0.1.x": "two\n"}
	return c
}

// ps shows the newest run, ps --runs all of them; describe and logs select one by NAME@RUN.
func TestRunsCommands(t *testing.T) {
	c := trainRuns(t)
	c.command(t, "ps -a --no-headers").expect(t, ""+
		"other  RUNNING   1  -  no GPU  1m ago\n"+
		"train  FINISHED  1  -  no GPU  1h ago\n", "", 0)
	when := func(i int) string { return term.FormatTime(c.jobs[i].Submitted) }
	ended := func(i int) string { return term.FormatTime(c.jobs[i].Tasks[0].Ended) }
	c.command(t, "ps --runs train --no-headers").expect(t, ""+
		"train@1  FAILED    1  "+when(0)+"  "+ended(0)+"  3  exit status 3\n"+
		"train@2  FINISHED  1  "+when(1)+"  "+ended(1)+"  0\n", "", 0)
	c.command(t, "ps --runs train -q").expect(t, "train@1\ntrain@2\n", "", 0)
	many := newFakeCluster(fakeJob("many", time.Hour, job.Finished, job.Failed, job.Finished))
	if r := many.command(t, "ps --runs many"); !strings.Contains(r.out, "many@1  FAILED  1/3, 2 finished ") {
		t.Errorf("counts of a run:\n%s", r.out)
	}
	c.command(t, "logs train@1").expect(t, "one\n", "", 0)
	c.command(t, "logs train").expect(t, "two\n", "", 0)
	c.command(t, "logs --previous train").expect(t, "",
		"job train: no earlier attempt of a task is remembered in run 2: mesos-gpu logs train@1 prints the run before", 1)
	c.command(t, "ps --runs unknown").expect(t, "", `there is no job "unknown"`, 1)
	if r := c.command(t, "describe train@1 -o json"); r.status != 0 {
		t.Errorf("got %+v", r)
	}
}

// submit accepts what get prints, without what the scheduler has set, and prints it again in a dry run.
func TestJobFileRoundTrip(t *testing.T) {
	c := trainRuns(t)
	for _, format := range []string{"yaml", "json"} {
		got := c.command(t, "get train@1 -o "+format)
		if got.status != 0 {
			t.Fatalf("got %+v", got)
		}
		path := filepath.Join(t.TempDir(), "train."+format)
		if err := os.WriteFile(path, []byte(got.out), 0o600); err != nil {
			t.Fatal(err)
		}
		c.command(t, "submit --dry-run -o yaml "+path).expect(t, ""+
			"name: train\ntasks: 1\ncpus: 1\nmem: 256MiB\ncontainer: mesos\ncommand: [python, train.py]\nenv:\n  EPOCHS: \"1\"\nrole: '*'\nkill_grace: 5s\n", "", 0)
	}
	c.command(t, "get unknown").expect(t, "", `there is no job "unknown"`, 1)
}

// rerun submits the specification of a run as the newest run.
func TestRerunCommand(t *testing.T) {
	c := trainRuns(t)
	c.command(t, "rerun train@1").expect(t, "job train@3 submitted\n", "", 0)
	newest := c.jobs[len(c.jobs)-1]
	if newest.Run != 3 || newest.Spec.Env["EPOCHS"] != "1" || newest.Spec.Owner != "" {
		t.Errorf("submitted %+v", newest)
	}
	c.command(t, "rerun unknown").expect(t, "", `there is no job "unknown"`, 1)
	c.command(t, "rerun --failed train").expect(t, "job train@4 submitted\n", "", 0)
	if len(c.reruns) != 2 || c.reruns[0].Failed || !c.reruns[1].Failed {
		t.Errorf("requested %+v", c.reruns)
	}
	c.schedules = []api.ScheduleView{{Spec: job.Spec{Name: "nightly", Schedule: &job.Schedule{Cron: "0 3 * * *"}}}}
	c.command(t, "rerun nightly").expect(t, "", "nightly is a schedule, which submits jobs itself", 1)
	c.jobs[len(c.jobs)-1].Spec.Workdir = "sha256:" + strings.Repeat("0", 64)
	c.command(t, "rerun train").expect(t, "job train@5 submitted\n", "it has the working folder of the earlier run", 0)
}
