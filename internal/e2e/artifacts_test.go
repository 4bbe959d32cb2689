package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkArtifacts checks that artifacts are listed and copied after the end of a task, also
// without its sandbox, which removeSandbox removes.
func checkArtifacts(t *testing.T, c *cluster, removeSandbox func()) {
	t.Helper()
	c.mustRun("submit", writeJobFile(t, "train",
		"name: train\ncpus: 0.1\nmem: 256MiB\nartifacts: [results, none]\ncommand: 'mkdir results; echo 42 > results/answer; echo log > log'\n"))
	c.awaitJobEnd("train")
	c.awaitOutput("train.0:results/answer", "artifacts", "train")
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
