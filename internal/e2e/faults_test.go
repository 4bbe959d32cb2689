package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/apachemesos"
	"mesos-gpu/internal/testimage"
	"mesos-gpu/internal/testneeds"
	"mesos-gpu/job"
)

// executorOf returns the pid of a task's executor, or 0 if there is none.
func executorOf(t *testing.T, task string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		env, err := os.ReadFile(path) // it may end meanwhile
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), "MESOS_EXECUTOR_ID="+task) {
			continue
		}
		argv, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil || !bytes.HasSuffix(argv, []byte("\x00executor\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	return 0
}

// containersOf are the names of an image's containers, running or not, but for
// those that an earlier run, killed, left behind.
func containersOf(t *testing.T, docker *client.Client, image string) []string {
	t.Helper()
	list, err := docker.ContainerList(t.Context(), container.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range list {
		if strings.HasPrefix(c.Image, image) && c.Created >= started.Unix() {
			names = append(names, strings.TrimPrefix(c.Names[0], "/"))
		}
	}
	return names
}

// cgroupsOf are the cgroups of the executor that has a container of that
// name.
func cgroupsOf(t *testing.T, name string) []string {
	t.Helper()
	id := strings.TrimPrefix(name, "mesos-gpu-")
	var all []string
	for _, pattern := range []string{"/sys/fs/cgroup/*/mesos-gpu-*/" + id, "/sys/fs/cgroup/mesos-gpu-*/" + id} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

func claimsIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// sleeper loads an image, submits a docker task of it that runs for long, and
// waits until it runs.
func sleeper(t *testing.T, c *cluster, docker *client.Client, name string) (image string) {
	t.Helper()
	image = testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-"+name, nil, nil))
	c.must("submit", write(t, name, fmt.Sprintf("name: %s\ngpus: 1\ncpus: 0.1\nmem: 256MiB\nretries: 1\nkill_grace: 0s\nimage: %s\ncommand: sleep 1000\n", name, image)))
	c.await(name, runs(1))
	return image
}

// runs reports whether a job's first task runs in that attempt.
func runs(attempt int) func(*api.JobView) bool {
	return func(v *api.JobView) bool { return v.Tasks[0].State == job.Running && v.Tasks[0].Attempt == attempt }
}

// executorIsKilled kills the executor of a docker task: the task is tried
// again, and before it is, what the executor left is gone.
func executorIsKilled(t *testing.T, c *cluster, docker *client.Client, name, claims string) {
	t.Helper()
	image := sleeper(t, c, docker, name)
	before := containersOf(t, docker, image)
	if len(before) != 1 || len(cgroupsOf(t, before[0])) == 0 {
		t.Fatalf("containers %v, cgroups of the first %v", before, cgroupsOf(t, before[0]))
	}
	pid := executorOf(t, task(t, c, name))
	if pid == 0 {
		t.Fatal("found no executor")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	view := c.await(name, runs(2))
	if v := view.Tasks[0]; v.Failures+v.Losses != 1 {
		t.Errorf("the task counts %d failures and %d losses, want one of either", v.Failures, v.Losses)
	}
	after := containersOf(t, docker, image)
	if len(after) != 1 || after[0] == before[0] {
		t.Errorf("containers were %v, are %v; want another one", before, after)
	}
	if got := claimsIn(t, claims); !slices.Equal(got, after) {
		t.Errorf("claims are %v, containers %v", got, after)
	}
	apachemesos.PollUntil(t, "the killed executor's cgroups to go", func() bool { return len(cgroupsOf(t, before[0])) == 0 })
	c.must("kill", name)
	c.awaitEnd(name)
	if got := containersOf(t, docker, image); len(got) > 0 {
		t.Errorf("left containers %v", got)
	}
	if got := claimsIn(t, claims); len(got) > 0 {
		t.Errorf("left claims %v", got)
	}
}

func TestExecutorIsKilled(t *testing.T) {
	testneeds.RequireRoot(t)
	docker := testneeds.RequireDockerEngine(t)
	work := t.TempDir()
	c := start(t, "--work-dir", work)
	executorIsKilled(t, c, docker, "killed", filepath.Join(work, "claims"))
	c.stop()
	nothingLeft(t, work)
}
