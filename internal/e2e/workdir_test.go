package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// makeWorkdir makes a folder with a job file, a script and files that are not uploaded.
func makeWorkdir(t *testing.T, name, container string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for file, text := range map[string]string{
		"job.yaml":  fmt.Sprintf("name: %s\n%s\ncpus: 0.1\nmem: 256MiB\nworkdir: .\ncommand: [./go.sh]\n", name, container),
		"go.sh":     "#!/bin/sh\nset -e\ncat lib/text linked\ntest ! -e debug.log\necho written > lib/result\ncat lib/result\n",
		"lib/text":  "from the folder\n",
		"debug.log": "not uploaded", ".gitignore": "*.log\n",
	} {
		path := filepath.Join(folder, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("lib/text", filepath.Join(folder, "linked")); err != nil {
		t.Fatal(err)
	}
	return folder
}

// checkWorkdir checks that a task starts in a copy of the folder that it may write to. The
// second job uses the archive that the first has uploaded.
func checkWorkdir(t *testing.T, c *cluster, name, container string) {
	t.Helper()
	for _, job := range []string{name, name + "-again"} {
		c.mustRun("submit", filepath.Join(makeWorkdir(t, job, container), "job.yaml"))
		c.awaitJobEnd(job)
		if out, want := c.run("logs", "--stdout", job).out, "from the folder\nfrom the folder\nwritten\n"; out != want {
			t.Errorf("the task prints %q, want %q\n%s%s", out, want, c.mustRun("describe", job), c.run("logs", "--stderr", job).err)
		}
	}
}

// TestTasksStartInWorkdir uploads a working folder with a job file and with run.
func TestTasksStartInWorkdir(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	checkWorkdir(t, c, "plain", "container: mesos")
	if out := c.mustRun("submit", "--dry-run", "--when", filepath.Join(makeWorkdir(t, "estimated", "gpus: 1"), "job.yaml")); !strings.HasPrefix(out,
		"estimated: ") {
		t.Errorf("submit --dry-run --when of a job whose folder is not uploaded: %q", out)
	}
	out := c.mustRun("run", "--cpus", "0.1", "--mem", "256MiB", "--workdir", makeWorkdir(t, "unused", ""), "--", "sh", "-c", "ls; cat lib/text")
	if !strings.Contains(out, "go.sh\n") || !strings.Contains(out, "from the folder\n") || strings.Contains(out, "debug.log") || strings.Contains(out, "tar.gz") {
		t.Errorf("run prints %q", out)
	}
	c.mustRun("submit", "--name", "flag", "--workdir", makeWorkdir(t, "unused", ""), writeJobFile(t, "flag",
		"name: other\ncpus: 0.1\nmem: 256MiB\nworkdir: none\ncommand: cat lib/text\n"))
	c.awaitJobEnd("flag")
	if out := c.mustRun("logs", "flag"); out != "from the folder\n" {
		t.Errorf("submit --workdir: %q", out)
	}
	r := c.run("run", "--workdir", filepath.Join(t.TempDir(), "none"), "--", "true")
	if r.code == 0 || !strings.Contains(r.err, "none") {
		t.Errorf("a folder that does not exist: status %d, %s", r.code, r.err)
	}
}

// TestTasksWithImagesStartInWorkdir does it in images, whose own folder is another one.
func TestTasksWithImagesStartInWorkdir(t *testing.T) {
	t.Parallel()
	testneeds.RequireProgram(t, "runc", "runc")
	docker := testneeds.RequireDockerEngine(t)
	archive := testimage.BusyboxArchive(t, "mesos-gpu-e2e-workdir", nil, nil)
	loaded := testimage.LoadImage(t, docker, archive)
	store := t.TempDir()
	hardLink(t, archive, filepath.Join(store, filepath.Base(archive)))
	c := startCluster(t, "--images", store)
	checkWorkdir(t, c, "docker", "container: docker\nimage: "+loaded)
	checkWorkdir(t, c, "image", "container: mesos\nimage: mesos-gpu-e2e-workdir")
}
