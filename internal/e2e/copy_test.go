package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// checkCopies copies files into a running task and out of its sandbox, while it runs and after
// its end. container has the job file's keys of the container. listsLinks is whether agents
// list links out of sandboxes, as those of Apache Mesos do.
func checkCopies(t *testing.T, c *cluster, name, container string, listsLinks bool) {
	t.Helper()
	c.mustRun("submit", writeJobFile(t, name, "name: "+name+"\n"+container+
		"\ncpus: 0.1\nmem: 256MiB\ncommand: 'mkdir -p out/deep; echo result > out/deep/r; seq 1 60000 > out/large; "+
		"ln -s /etc/hostname out/away; echo ready; until [ -e in/go ]; do sleep 0.1; done; cat in/go tree/b/c; ls -l script; "+
		"until [ -e in/end ]; do sleep 0.1; done'\n"))
	c.awaitJob(name, func(v *api.JobView) bool {
		return v.Tasks[0].State == job.Running && strings.Contains(c.run("logs", name).out, "ready")
	})
	local := t.TempDir()
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(local, name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	checkOutput := func(folder string) {
		t.Helper()
		if out := c.mustRun("ls", name+":out"); !strings.Contains(out, "deep/") || !strings.Contains(out, "large") {
			t.Errorf("ls prints:\n%s", out)
		}
		c.mustRun("cp", name+":out", filepath.Join(local, folder))
		if got := read(folder + "/deep/r"); got != "result\n" {
			t.Errorf("copied %q", got)
		}
		if got := read(folder + "/large"); len(got) != 348894 || !strings.HasSuffix(got, "\n60000\n") {
			t.Errorf("copied %d bytes of a large file", len(got))
		}
		if _, err := os.Lstat(filepath.Join(local, folder, "away")); err == nil {
			t.Error("a link out of the sandbox was copied")
		}
		if out := c.mustRun("cp", name+".0:out/deep/r", "-"); out != "result\n" {
			t.Errorf("cp to standard output: %q", out)
		}
	}
	checkOutput("first")
	for path, text := range map[string]string{"go": "went\n", "tree/b/c": "in a folder\n", "script": "#!/bin/sh\n"} {
		file := filepath.Join(local, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(local, "script"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.mustRun("cp", filepath.Join(local, "tree"), name+":")
	c.mustRun("cp", filepath.Join(local, "script"), name+":.")
	if r := c.run("cp", filepath.Join(local, "script"), name+":/no/such\x7f/../../proc/x"); r.code == 0 || !strings.Contains(r.err, "exit status") {
		t.Errorf("a path that cannot be written: status %d, %s", r.code, r.err)
	}
	c.mustRun("cp", filepath.Join(local, "go"), name+":in/")
	// The task ends as soon as it sees the last file, perhaps before the command in its container that has written it.
	c.run("cp", filepath.Join(local, "go"), name+":in/end")
	c.awaitJobEnd(name)
	if out := c.run("logs", "--stdout", name).out; !strings.Contains(out, "went\nin a folder\n-rwxr-xr-x") {
		t.Errorf("the task prints %q\n%s", out, c.run("logs", "--stderr", name).err)
	}
	checkOutput("second")
	for path, want := range map[string]string{
		"none":          "has no file",
		"../stdout":     "leads out",
		"/etc/hostname": "is absolute",
		"out/away":      map[bool]string{true: "cannot be read", false: "has no file"}[listsLinks],
	} {
		if r := c.run("cp", name+":"+path, local+"/x"); r.code == 0 || !strings.Contains(r.err, want) {
			t.Errorf("%s: status %d, %s", path, r.code, r.err)
		}
	}
	if r := c.run("cp", filepath.Join(local, "go"), name+":x"); r.code == 0 || !strings.Contains(r.err, "files are written to tasks that are RUNNING") {
		t.Errorf("into an ended task: status %d, %s", r.code, r.err)
	}
}

func TestFilesAreCopiedFromAndIntoTasks(t *testing.T) {
	t.Parallel()
	checkCopies(t, startCluster(t), "plain", "container: mesos", false)
}

func TestFilesAreCopiedFromAndIntoImages(t *testing.T) {
	t.Parallel()
	testneeds.RequireProgram(t, "runc", "runc")
	docker := testneeds.RequireDockerEngine(t)
	archive := testimage.BusyboxArchive(t, "mesos-gpu-e2e-copy", nil, nil)
	loaded := testimage.LoadImage(t, docker, archive)
	store := t.TempDir()
	hardLink(t, archive, filepath.Join(store, filepath.Base(archive)))
	c := startCluster(t, "--images", store)
	checkCopies(t, c, "docker", "container: docker\nparameters: [workdir=/mnt/mesos/sandbox]\nimage: "+loaded, false)
	checkCopies(t, c, "image", "container: mesos\nimage: mesos-gpu-e2e-copy", false)
}
