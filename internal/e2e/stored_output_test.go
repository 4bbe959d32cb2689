package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// checkStoredOutput checks that logs prints the end of both attempts of a task without their sandboxes, which removeSandboxes
// removes, and says so. more is added to the job file.
func checkStoredOutput(t *testing.T, c *cluster, name, more string, removeSandboxes func(job string)) {
	t.Helper()
	c.mustRun("submit", writeJobFile(t, name, "name: "+name+"\ncpus: 0.1\nmem: 256MiB\nretries: 1\n"+more+
		"command: 'for i in 1 2 3; do echo line $i; echo error $i >&2; sleep 0.1; done; "+
		"case $MESOS_TASK_ID in "+name+".0.1.*) yes 0123456789012345678901234567890123456789 2>/dev/null | head -n 30000; exit 1;; esac'\n"))
	c.awaitJobEnd(name)
	live := c.run("logs", name)
	if live.code != 0 || live.out != "line 1\nline 2\nline 3\n" || live.err != "error 1\nerror 2\nerror 3\n" {
		t.Fatalf("logs prints %q and %q", live.out, live.err)
	}
	first := c.run("logs", "--previous", name)
	if first.code != 0 || strings.Contains(first.err, "stored") || len(first.out) < 1<<20 {
		t.Fatalf("logs --previous prints %d bytes and %q", len(first.out), first.err)
	}
	removeSandboxes(name)
	const notice = ": the sandbox is gone; this is from all output, stored when the task ended (nothing is missing)\n"
	stored := c.run("logs", name)
	said, rest, _ := strings.Cut(stored.err, "\n")
	if stored.code != 0 || stored.out != live.out || rest != live.err ||
		!strings.HasPrefix(said, "mesos-gpu: task "+name+".0.") || !strings.HasSuffix(said+"\n", notice) {
		t.Errorf("without the sandbox logs prints %q and %q", stored.out, stored.err)
	}
	if out := c.run("logs", "--stderr", "--tail", "1", name).out; out != "error 3\n" {
		t.Errorf("without the sandbox the last line is %q", out)
	}
	stored = c.run("logs", "--previous", name)
	if stored.code != 0 || !strings.HasSuffix(first.out, stored.out) || len(stored.out) < 1<<20-50 || len(stored.out) > 1<<20 ||
		!strings.Contains(stored.err, "; this is from the last 1 MiB of output, stored when the task ended (177.") || strings.Count(stored.err, "\n") != 1 {
		t.Errorf("without the sandbox logs --previous prints %d bytes and %q", len(stored.out), stored.err)
	}
	if r := c.run("ls", name); r.code == 0 {
		t.Errorf("the sandbox is still there: %q", r.out)
	}
}

// removeSandboxes removes the sandboxes of both attempts of a job in a work directory, once their output is stored.
func removeSandboxes(t *testing.T, work, job string) {
	t.Helper()
	sandboxes, err := filepath.Glob(filepath.Join(work, "agent", "slaves", "*", "frameworks", "*", "executors", job+".*"))
	if err != nil || len(sandboxes) != 2 {
		t.Fatalf("sandboxes %q, %v", sandboxes, err)
	}
	for files := []string(nil); len(files) < 2; time.Sleep(50 * time.Millisecond) {
		if files, err = filepath.Glob(filepath.Join(work, "artifacts", ".output", job+".*.gz")); err != nil || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	for _, sandbox := range sandboxes {
		if err := os.RemoveAll(sandbox); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOutputOfEndedTasks(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	checkStoredOutput(t, startCluster(t, "--work-dir", work), "train", "", func(job string) { removeSandboxes(t, work, job) })
}

func TestOutputOfEndedContainers(t *testing.T) {
	t.Parallel()
	testneeds.RequireRoot(t)
	testneeds.RequireProgram(t, "runc", "runc")
	const image = "mesos-gpu-e2e-output"
	archive, work := testimage.BusyboxArchive(t, image, nil, nil), t.TempDir()
	c := startCluster(t, "--work-dir", work, "--images", filepath.Dir(archive))
	for _, containerizer := range []string{"mesos", "docker"} {
		t.Run(containerizer, func(t *testing.T) {
			if containerizer == "docker" {
				testimage.LoadImage(t, testneeds.RequireDockerEngine(t), archive)
			}
			more := "image: " + image + "\ncontainer: " + containerizer + "\n"
			checkStoredOutput(t, c, "in-"+containerizer, more, func(job string) { removeSandboxes(t, work, job) })
		})
	}
}
