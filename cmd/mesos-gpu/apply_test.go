package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/job"
)

// applyTwice writes a file, applies it and then a changed one, and returns the changed file.
func applyTwice(t *testing.T, c *fakeCluster, text, first, old, changed string) string {
	t.Helper()
	path := writeJobFile(t, text)
	c.command(t, "diff "+path).expect(t, strings.Replace(first, "submitted", "would be submitted", 1), "", 1)
	c.command(t, "apply "+path).expect(t, first, "", 0)
	unchanged := strings.TrimSuffix(first, "submitted\n") + "unchanged\n"
	c.command(t, "apply "+path).expect(t, unchanged, "", 0)
	c.command(t, "diff "+path).expect(t, unchanged, "", 0)
	if err := os.WriteFile(path, []byte(strings.Replace(text, old, changed, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// apply submits a job that is new or has changed, as a new run, and prints the changes.
func TestApplyJob(t *testing.T) {
	c := newFakeCluster()
	path := applyTwice(t, c, "name: train\ncommand: ls\nenv: {EPOCHS: \"1\", SEED: \"7\"}\n", "job train submitted\n", "EPOCHS: \"1\"", "EPOCHS: \"2\"")
	lines := "diff train@1 " + path + "\n--- train@1\n+++ " + path +
		"\n@@ -5,6 +5,6 @@\n container: mesos\n command: ls\n env:\n-  EPOCHS: \"1\"\n+  EPOCHS: \"2\"\n   SEED: \"7\"\n kill_grace: 5s\n"
	for _, line := range []string{"diff " + path, "apply --dry-run " + path} {
		c.command(t, line).expect(t, lines+"job train would be submitted\n", "", map[bool]int{true: 1, false: 0}[strings.HasPrefix(line, "diff")])
	}
	if len(c.jobs) != 1 {
		t.Errorf("a dry run submits %d jobs", len(c.jobs)-1)
	}
	c.command(t, "apply "+path).expect(t, lines+"job train submitted\n", "", 0)
	if len(c.jobs) != 2 || c.jobs[1].Run != 2 || c.jobs[1].Spec.Env["EPOCHS"] != "2" {
		t.Errorf("the jobs are %+v", c.jobs)
	}
	c.command(t, "apply --set env.EPOCHS=2 "+path).expect(t, "job train unchanged\n", "", 0)
	c.command(t, "diff "+writeJobFile(t, "name: a\n")).expect(t, "", "command: a task without an image needs one", 1)
}

// diff compares the contents of working folders, and uploads none.
func TestDiffOfWorkdir(t *testing.T) {
	path := writeJobFile(t, "name: train\nworkdir: .\ncommand: ls\n")
	c := newFakeCluster()
	_, digest, _ := strings.Cut(c.command(t, "diff "+path).out, "workdir: ") // nothing: the job is new
	if digest != "" {
		t.Fatalf("got %q", digest)
	}
	existing := fakeJob("train", 0, job.Finished)
	existing.Spec.Command, existing.Spec.Workdir = []string{"/bin/sh", "-c", "ls"}, job.WorkdirPrefix+strings.Repeat("0", 64)
	if err := existing.Spec.Complete(); err != nil {
		t.Fatal(err)
	}
	c.jobs = append(c.jobs, existing)
	r := c.command(t, "diff "+path)
	_, digest, _ = strings.Cut(r.out, "\n+workdir: ")
	digest, _, _ = strings.Cut(digest, "\n")
	if !job.IsWorkdirDigest(digest) || r.status != 1 {
		t.Fatalf("got %+v", r)
	}
	existing.Spec.Workdir = digest
	c.command(t, "diff "+path).expect(t, "job train unchanged\n", "", 0)
}

// TestApplyKeepsScaledNumber checks that apply leaves the number of tasks to autoscaling, within the bounds of the file.
func TestApplyKeepsScaledNumber(t *testing.T) {
	c := newFakeCluster()
	const text = "name: web\nports: 1\nservice: {min: 1, max: 4, target: {metric: m, value: 10}}\ncommand: serve\n"
	path := writeJobFile(t, text)
	c.command(t, "apply "+path).expect(t, "service web submitted\n", "", 0)
	c.jobs[0].Tasks = slices.Repeat(c.jobs[0].Tasks, 3)
	c.command(t, "apply "+path).expect(t, "service web unchanged\n", "", 0)
	path = writeJobFile(t, strings.Replace(text, "max: 4", "max: 2", 1))
	if r := c.command(t, "diff "+path); !strings.Contains(r.out, "\n-tasks: 3\n+tasks: 2\n") {
		t.Errorf("with a maximum of 2 tasks: %+v", r)
	}
}

// apply updates a service that runs, and submits one that has ended as a new run.
func TestApplyService(t *testing.T) {
	c := newFakeCluster()
	path := applyTwice(t, c, "name: web\ntasks: 2\nservice: true\ncommand: serve\n", "service web submitted\n", "serve", "serve --fast")
	if r := c.command(t, "diff "+path); !strings.HasSuffix(r.out,
		"-command: serve\n+command: serve --fast\n service:\n   backoff: 1s\n   backoff_factor: 1.15\nservice web would be updated\n") || r.status != 1 {
		t.Errorf("got %+v", r)
	}
	if r := c.command(t, "apply "+path); !strings.HasSuffix(r.out, "service web updated to version 1\n") || r.status != 0 {
		t.Errorf("got %+v", r)
	}
	if r := c.command(t, "describe web"); !strings.Contains(r.out, "\nversion     1, which 0 of 2 tasks have\n") {
		t.Errorf("got %+v", r)
	}
	if len(c.jobs) != 1 || c.jobs[0].Spec.Command[2] != "serve --fast" {
		t.Errorf("the jobs are %+v", c.jobs)
	}
	c.changeTask("web", 0, job.Killed, 143)
	c.changeTask("web", 1, job.Killed, 143)
	if r := c.command(t, "apply --set tasks=5 "+path); !strings.HasSuffix(r.out, "service web submitted\n") || len(c.jobs) != 2 {
		t.Errorf("got %+v", r)
	}
}

// apply replaces a schedule that has changed, and keeps it if the new one is rejected.
func TestApplySchedule(t *testing.T) {
	c := newFakeCluster()
	path := applyTwice(t, c, "name: nightly\nschedule: 0 3 * * *\ncommand: ls\n", "schedule nightly submitted\n", "0 3", "0 4")
	if r := c.command(t, "apply "+path); !strings.Contains(r.out, "+  cron: 0 4 * * *\n") || !strings.HasSuffix(r.out, "schedule nightly updated\n") {
		t.Errorf("got %+v", r)
	}
	r := c.command(t, "apply --set schedule=[x] "+path)
	if r.status != 1 {
		t.Errorf("got %+v", r)
	}
	bad := writeJobFile(t, "name: nightly\nschedule: 0 0 * * *\ncommand: ls\n")
	if r := c.command(t, "apply "+bad); r.status != 1 || !strings.Contains(r.err, "nightly: not at midnight") {
		t.Errorf("got %+v", r)
	}
	if len(c.schedules) != 1 || c.schedules[0].Spec.Schedule.Cron != "0 4 * * *" {
		t.Errorf("the schedules are %+v", c.schedules)
	}
}
