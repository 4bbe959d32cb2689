package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// checkArtifacts checks that artifacts are listed and copied after the end of a task, also
// without its sandbox, which removeSandbox removes.
func checkArtifacts(t *testing.T, c *cluster, removeSandbox func()) {
	t.Helper()
	c.mustRun("submit", writeJobFile(t, "train",
		"name: train\ncpus: 0.1\nmem: 256MiB\nartifacts: [results, none]\ncommand: 'mkdir results; echo 42 > results/answer; echo log > log'\n"))
	c.awaitJobEnd("train")
	c.awaitOutputOf("train.0:results/answer", "artifacts", "train")
	if out := c.mustRun("artifacts", "train"); !strings.Contains(out, "train.0:none") || !strings.Contains(out, "the task has not written it") {
		t.Errorf("artifacts prints:\n%s", out)
	}
	removeSandbox()
	c.awaitOutputWithout("log", "ls", "train")
	target := t.TempDir()
	c.mustRun("cp", "train:results", target)
	if text, err := os.ReadFile(filepath.Join(target, "results", "answer")); err != nil || string(text) != "42\n" {
		t.Errorf("copied %q, %v", text, err)
	}
	if r := c.run("cp", "train:log", "-"); r.code == 0 {
		t.Errorf("a file that is no artifact: %q", r.out)
	}
}

func (c *cluster) awaitOutputOf(text string, args ...string) {
	c.t.Helper()
	c.awaitRun(func(r result) bool { return strings.Contains(r.out, text) }, args...)
}

func (c *cluster) awaitOutputWithout(text string, args ...string) {
	c.t.Helper()
	c.awaitRun(func(r result) bool { return r.code == 0 && !strings.Contains(r.out, text) }, args...)
}

// awaitRun repeats a command until its result is the wanted one.
func (c *cluster) awaitRun(wanted func(result) bool, args ...string) {
	c.t.Helper()
	for late := time.Now().Add(waitTimeout); ; time.Sleep(100 * time.Millisecond) {
		r := c.run(args...)
		if wanted(r) {
			return
		}
		if time.Now().After(late) {
			c.t.Fatalf("mesos-gpu %s: status %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
		}
	}
}

func TestArtifactsOfEndedTasks(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	c := startCluster(t, "--work-dir", work)
	checkArtifacts(t, c, func() {
		sandboxes, err := filepath.Glob(filepath.Join(work, "agent", "slaves", "*", "frameworks", "*", "executors", "train.*"))
		if err != nil || len(sandboxes) != 1 {
			t.Fatalf("sandboxes %q, %v", sandboxes, err)
		}
		if err := os.RemoveAll(sandboxes[0]); err != nil {
			t.Fatal(err)
		}
	})
}
