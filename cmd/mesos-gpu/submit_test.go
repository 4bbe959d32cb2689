package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/job"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Files are checked without a scheduler, all of them, and every mistake has
// its line.
func TestValidate(t *testing.T) {
	good, bad := file(t, "name: a\ntasks: 2\ngpus: 1\ncommand: ls\n"), file(t, "name: b\ngpu: 1\ncpus: none\ncommand: ls\n")
	newCluster().command(t, "validate "+good).wants(t, good+": job a, 2 tasks with 1 GPU each\n", "", 0)
	nightly := file(t, "name: nightly\nschedule: 0 3 * * *\ncommand: ls\n")
	newCluster().command(t, "validate "+nightly).wants(t, nightly+": schedule nightly, 1 task with no GPU each\n", "", 0)
	typo := file(t, "name: a\ngpus: 1\ngpu_type: [V1000, V100]\ncommand: ls\n")
	newCluster().command(t, "validate "+typo).wants(t, typo+": job a, 1 task with 1 GPU of V1000 or V100 each\n", `gpu_type "V1000": NVIDIA makes none of that name`, 0)
	open := file(t, "name: a\nimage: debian:12\nparameters: [privileged=true]\n")
	newCluster().command(t, "validate "+open).wants(t, "", open+`:3:14: parameters: item 1: "privileged" is not served: served are add-host, `, 1)
	r := newCluster().command(t, "validate "+bad+" "+good)
	r.wants(t, good+": job a, 2 tasks with 1 GPU each\n", bad+`:2:1: unknown key "gpu"; did you mean "gpus"?`+"\n"+bad+`:3:7: cpus: "none" is not a number`, 1)
	newCluster().command(t, "validate").wants(t, "", "mesos-gpu validate needs FILE", 2)
	newCluster().command(t, "validate /none").wants(t, "", "open job file: open /none: no such file", 1)
}

// A dry run submits nothing: the cluster would not take it.
func TestSubmitDry(t *testing.T) {
	path := file(t, "name: a\ncommand: ls\n")
	for _, line := range []string{"submit --dry-run " + path, "submit --dry-run -f " + path} {
		if r := newCluster().command(t, line); r.status != 0 || !strings.Contains(r.out, "name: a\n") || !strings.Contains(r.out, "mem: 256MiB\n") {
			t.Errorf("%s: got %+v", line, r)
		}
	}
	if r := newCluster().command(t, "submit --dry-run -o json "+path); !strings.Contains(r.out, `"mem_mib": 256`) {
		t.Errorf("got %+v", r)
	}
	newCluster().command(t, "submit").wants(t, "", "mesos-gpu submit needs FILE", 2)
	newCluster().command(t, "submit -f x y").wants(t, "", "mesos-gpu submit takes one file: y or x", 2)
}

// Killing goes on after a job that cannot be killed.
func TestKillSeveral(t *testing.T) {
	c := newCluster(madeUp("a", time.Hour, job.Running), madeUp("b", time.Hour, job.Finished), madeUp("c", time.Hour, job.Waiting))
	c.command(t, "kill a nobody b c").wants(t, "job a: kill requested\njob b is FINISHED already\njob c: kill requested\n", `there is no job "nobody"`, 1)
	if got := string(c.jobs[0].State()) + " " + string(c.jobs[2].State()); got != "KILLED KILLED" {
		t.Errorf("the jobs are %s", got)
	}
}

// A job that outlives its kill can be ended by force.
func TestKillForce(t *testing.T) {
	c := newCluster(madeUp("a", time.Hour, job.Running))
	c.stubborn = true
	c.command(t, "kill a").wants(t, "job a: kill requested\n", "", 0)
	if got := c.jobs[0].State(); got != job.Running {
		t.Fatalf("the job is %s, want it to outlive a kill", got)
	}
	c.command(t, "kill --force a").wants(t, "job a: kill by force requested\n", "", 0)
	if got := c.jobs[0].State(); got != job.Killed {
		t.Errorf("the job is %s", got)
	}
}
