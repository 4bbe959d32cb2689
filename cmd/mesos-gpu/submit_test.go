package main

import (
	"context"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

func writeJobFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// validate checks all files without a scheduler and reports every error with its line.
func TestValidate(t *testing.T) {
	good, bad := writeJobFile(t, "name: a\ntasks: 2\ngpus: 1\ncommand: ls\n"), writeJobFile(t, "name: b\ngpu: 1\ncpus: none\ncommand: ls\n")
	newFakeCluster().command(t, "validate "+good).expect(t, good+": job a, 2 tasks with 1 GPU each\n", "", 0)
	nightly := writeJobFile(t, "name: nightly\nschedule: 0 3 * * *\ncommand: ls\n")
	newFakeCluster().command(t, "validate "+nightly).expect(t, nightly+": schedule nightly, 1 task with no GPU each\n", "", 0)
	typo := writeJobFile(t, "name: a\ngpus: 1\ngpu_type: [V1000, V100]\ncommand: ls\n")
	newFakeCluster().command(t, "validate "+typo).expect(t, typo+": job a, 1 task with 1 GPU of V1000 or V100 each\n",
		`gpu_type "V1000": no NVIDIA GPU has that name`, 0)
	open := writeJobFile(t, "name: a\nimage: debian:12\nparameters: [privileged=true]\n")
	newFakeCluster().command(t, "validate "+open).expect(t, "", open+`:3:14: parameters: item 1: "privileged" is not served: served are add-host, `, 1)
	r := newFakeCluster().command(t, "validate "+bad+" "+good)
	r.expect(t, good+": job a, 2 tasks with 1 GPU each\n", bad+`:2:1: unknown key "gpu"; did you mean "gpus"?`+"\nmesos-gpu: "+bad+`:3:7: cpus: "none" is not a number`, 1)
	twice := writeJobFile(t, "name: a\ncommand: x\ntypo: 1\nother: 2\n")
	newFakeCluster().command(t, "validate "+twice).expect(t, "", "mesos-gpu: "+twice+":3:1: unknown key \"typo\": see mesos-gpu explain\n"+
		"mesos-gpu: "+twice+":4:1: unknown key \"other\": see mesos-gpu explain\n", 1)
	missing := writeJobFile(t, "name: a\ngpus: -1\n")
	newFakeCluster().command(t, "validate "+missing).expect(t, "", "mesos-gpu: "+missing+":2:7: gpus: -1 is not between 0 and 1024\n"+
		"mesos-gpu: "+missing+": command: a task without an image needs one\n", 1)
	newFakeCluster().commandWithInput(t, "validate -", "name: a\ngpus: -1\n").expect(t, "", "mesos-gpu: standard input:2:7: gpus: -1 is not between 0 and 1024\n"+
		"mesos-gpu: standard input: command: a task without an image needs one\n", 1)
	newFakeCluster().commandWithInput(t, "validate -", "name: a\ncommand: ls\n").expect(t, "standard input: job a, 1 task with no GPU each\n", "", 0)
	lost := writeJobFile(t, "name: a\nworkdir: nowhere\ncommand: ls\n")
	newFakeCluster().command(t, "validate "+lost+" "+good).expect(t, good+": job a, 2 tasks with 1 GPU each\n",
		"mesos-gpu: "+lost+": workdir: "+filepath.Join(filepath.Dir(lost), "nowhere")+": no such file or directory\n", 1)
	newFakeCluster().command(t, "validate").expect(t, "", "mesos-gpu: validate needs FILE", 2)
	newFakeCluster().command(t, "validate /none").expect(t, "", "mesos-gpu: /none: no such file or directory\n", 1)
}

// A dry run submits nothing; the cluster would reject the job.
func TestSubmitDryRun(t *testing.T) {
	path := writeJobFile(t, "name: a\ncommand: ls\n")
	for _, line := range []string{"submit --dry-run " + path, "submit --dry-run -f " + path} {
		if r := newFakeCluster().command(t, line); r.status != 0 || !strings.Contains(r.out, "name: a\n") || !strings.Contains(r.out, "mem: 256MiB\n") {
			t.Errorf("%s: got %+v", line, r)
		}
	}
	if r := newFakeCluster().command(t, "submit --dry-run -o json "+path); !strings.Contains(r.out, `"mem_mib": 256`) {
		t.Errorf("got %+v", r)
	}
	newFakeCluster().command(t, "submit").expect(t, "", "mesos-gpu: submit needs FILE", 2)
	newFakeCluster().command(t, "submit -f /none/x /none/y").expect(t, "", "mesos-gpu: /none/y: no such file or directory\nmesos-gpu: /none/x: no such file", 1)
}

// submit replaces values of the file by flags, and fills in variables.
func TestSubmitOverrides(t *testing.T) {
	path := writeJobFile(t, "name: a\ngpus: 1\ngpu_type: V100\nenv: {SEED: \"1\", LR: \"{{lr}}\"}\ncommand: train --lr {{lr}}\n")
	c := newFakeCluster()
	c.command(t, "submit --name b --gpus 2 --gpu-type A100,H100 --image pytorch -e SEED=7 --env DEBUG= --set mem=4GiB --set env.X=x --var lr=0.1 "+path).expect(t,
		"job b submitted\n", "", 0)
	c.command(t, "get b").expect(t, ""+
		"name: b\ntasks: 1\ngpus: 2\ngpu_type: [A100, H100]\ncpus: 1\nmem: 4096MiB\ncontainer: docker\nimage: pytorch\ncommand: train --lr 0.1\n"+
		"env:\n  DEBUG: \"\"\n  LR: \"0.1\"\n  SEED: \"7\"\n  X: x\nkill_grace: 5s\n", "", 0)
	c.command(t, "submit "+path).expect(t, "", path+":4:22: variable lr has no value: give one by --var lr=VALUE", 1)
	c.command(t, "validate --var lr=1 --var lrr=1 "+path).expect(t, path+": job a, 1 task with 1 GPU of V100 each\n", "--var lrr: no file has {{lrr}}", 2)
	for flags, want := range map[string]string{
		"--set gpus": "--set \"gpus\": write KEY=VALUE", "--var lr": "--var \"lr\": write NAME=value", "-e X": "--env: \"X\": write NAME=value",
	} {
		c.command(t, "submit "+flags+" "+path).expect(t, "", want, 2)
	}
}

// --env-file adds the variables of files, and --env and the names of both files take precedence in this order.
func TestSubmitEnvFile(t *testing.T) {
	path := writeJobFile(t, "name: a\nenv: {SEED: \"1\", KEPT: x}\ncommand: ls\n")
	env, later, unset := writeJobFile(t, "# comment\nSEED=2\nLR=0.1\nTEXT= a \"b\"\nMESOS_GPU_API\n"), writeJobFile(t, "LR=0.2\n"), writeJobFile(t, "UNSET\n")
	c := newFakeCluster()
	c.command(t, "submit --env-file "+env+" --env-file "+later+" -e SEED=3 "+path).expect(t, "job a submitted\n", "", 0)
	address := c.jobs[0].Spec.Env["MESOS_GPU_API"]
	want := map[string]string{"KEPT": "x", "SEED": "3", "LR": "0.2", "TEXT": ` a "b"`, "MESOS_GPU_API": address}
	if got := c.jobs[0].Spec.Env; address == "" || !maps.Equal(got, want) {
		t.Errorf("the variables are %q, want %q", got, want)
	}
	c.command(t, "run -d --name b --env-file "+env+" -e SEED=3 -- ls").expect(t, "b\n", "", 0)
	if got := c.jobs[1].Spec.Env; got["LR"] != "0.1" || got["SEED"] != "3" || len(got) != 4 {
		t.Errorf("the variables of run are %q", got)
	}
	c.command(t, "submit --env-file "+unset+" "+path).expect(t, "", "--env-file "+unset+": UNSET has no value here: write NAME=value", 2)
	c.command(t, "run -d --env-file /none -- ls").expect(t, "", "--env-file /none: open /none: no such file", 2)
}

// submit takes several files, folders and documents, checks all of them first, and submits a job after those it depends on.
func TestSubmitManyJobs(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"1.yaml": "name: report\nafter: [train]\ncommand: ls\n", "2.yml": "name: train\nafter: prepare\ncommand: ls\n---\nname: prepare\ncommand: ls\n",
		"3.json": `{"name": "other", "command": "ls"}`, "README.md": "no job", ".hidden.yaml": "no job",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	last := writeJobFile(t, "name: last\ncommand: ls\n")
	c := newFakeCluster()
	c.command(t, "submit "+dir+" "+last).expect(t,
		"job prepare submitted\njob train submitted\njob report submitted\njob other submitted\njob last submitted\n", "", 0)
	if r := c.command(t, "submit --dry-run "+dir+"/2.yml"); !strings.HasPrefix(r.out, "name: prepare\n") ||
		!strings.Contains(r.out, "\n---\nname: train\n") || r.status != 0 {
		t.Errorf("got %+v", r)
	}
	if r := c.command(t, "submit -o json "+dir+"/2.yml"); !strings.HasPrefix(r.out, "[\n  {") || r.status != 0 {
		t.Errorf("got %+v", r)
	}
	bad := writeJobFile(t, "name: last\ncommand: ls\n---\nname: b\ngpus: x\n")
	before := len(c.jobs)
	c.command(t, "submit "+dir+" "+bad).expect(t, "", bad+":5:7: gpus", 1)
	c.command(t, "submit "+last+" "+last).expect(t, "", "job last is in "+last+" and in "+last, 1)
	c.command(t, "submit --name x "+dir).expect(t, "", "--name x: the files have", 2)
	c.command(t, "submit "+t.TempDir()).expect(t, "", "the folder has no job file: .yaml, .yml or .json", 1)
	if len(c.jobs) != before {
		t.Errorf("%d jobs are submitted after a mistake", len(c.jobs)-before)
	}
}

// A job that the scheduler rejects does not stop the others; each of its mistakes names it, and the end has a count.
func TestSubmitContinuesAfterRejection(t *testing.T) {
	path := writeJobFile(t, "name: a\ncommand: ls\n---\nname: rejected\ncommand: ls\n---\nname: c\ncommand: ls\n")
	commandAt(t, serveBackend(t, &selectiveCluster{newFakeCluster()}), "submit", path).
		expect(t, "job a submitted\njob c submitted\n", "mesos-gpu: job rejected: gpus: too many\nmesos-gpu: job rejected: mem: too much\nmesos-gpu: 2 of 3 submitted\n", 1)
}

// selectiveCluster rejects one job with two mistakes.
type selectiveCluster struct{ *fakeCluster }

func (c *selectiveCluster) SubmitJob(ctx context.Context, _ *access.Grant, spec job.Spec) (api.JobView, string, error) {
	if spec.Name == "rejected" {
		return api.JobView{}, "", api.NewProblemf(http.StatusUnprocessableEntity, "gpus: too many\nmem: too much")
	}
	return c.fakeCluster.SubmitJob(ctx, nil, spec)
}

// kill continues after a job that cannot be killed.
func TestKillManyJobs(t *testing.T) {
	c := newFakeCluster(fakeJob("a", time.Hour, job.Running), fakeJob("b", time.Hour, job.Finished), fakeJob("c", time.Hour, job.Waiting))
	c.command(t, "kill a unknown b c").expect(t, "job a: kill requested\njob b is FINISHED already\njob c: kill requested\n", `there is no job "unknown"`, 1)
	if got := string(c.jobs[0].State()) + " " + string(c.jobs[2].State()); got != "KILLED KILLED" {
		t.Errorf("the jobs are %s", got)
	}
}

// kill takes patterns of names of live jobs.
func TestKillPattern(t *testing.T) {
	c := newFakeCluster(fakeJob("run-1", time.Hour, job.Running), fakeJob("run-2", time.Hour, job.Finished),
		fakeJob("run-3", time.Hour, job.Waiting), fakeJob("train", time.Hour, job.Running))
	c.command(t, "kill run-*").expect(t, "job run-1: kill requested\njob run-3: kill requested\n", "", 0)
	c.command(t, "kill run-* train").expect(t, "job train: kill requested\n", `no job that has not ended matches "run-*"`, 1)
}

// --force ends a job that survives a normal kill.
func TestKillForce(t *testing.T) {
	c := newFakeCluster(fakeJob("a", time.Hour, job.Running))
	c.stubborn = true
	c.command(t, "kill a").expect(t, "job a: kill requested\n", "", 0)
	if got := c.jobs[0].State(); got != job.Running {
		t.Fatalf("the job is %s, want it to outlive a kill", got)
	}
	c.command(t, "kill --force a").expect(t, "job a: kill by force requested\n", "", 0)
	if got := c.jobs[0].State(); got != job.Killed {
		t.Errorf("the job is %s", got)
	}
}

// submit and run print the scheduler's warnings about a job that cannot start, and describe shows its script line by line.
func TestSubmitPrintsWarnings(t *testing.T) {
	c := newFakeCluster()
	path := writeJobFile(t, "name: a\ngpus: 4\ncommand: |\n  echo 1\n  echo 2\n")
	c.command(t, "submit "+path).expect(t, "job a submitted\n", "", 0)
	c.warnings = []string{"the job cannot start with the present agents"}
	c.command(t, "submit --name b "+path).expect(t, "job b submitted\n", "mesos-gpu: b: the job cannot start with the present agents\n", 0)
	c.command(t, "run -d --name c --gpus 100 -- ls").expect(t, "c\n", "mesos-gpu: c: the job cannot start with the present agents\n", 0)
	if r := c.command(t, "submit -o json --name d "+path); r.err != "" || !strings.Contains(r.out, `"warnings":`) {
		t.Errorf("for programs: %+v", r)
	}
	if r := c.command(t, "describe a"); !strings.Contains(r.out, "\ncommand     echo 1\n            echo 2\n") {
		t.Errorf("got %s", r.out)
	}
}

// A variable of --env without a value in this process is a mistake.
func TestSubmitRejectsUnsetVariable(t *testing.T) {
	path := writeJobFile(t, "name: a\ncommand: x\n")
	newFakeCluster().command(t, "submit -e UNSET_VARIABLE "+path).expect(t, "", `--env: "UNSET_VARIABLE": write NAME=value`, 2)
}
