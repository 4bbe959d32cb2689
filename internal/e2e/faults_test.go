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
	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// findExecutor returns the pid of a task's executor, or 0 without one.
func findExecutor(t *testing.T, task string) int {
	t.Helper()
	return findExecutors(t, "", func(id string) bool { return id == task })[task]
}

// findExecutors returns the pids of the executors whose task the condition selects, by task, of
// those that have the sandbox below a folder.
func findExecutors(t *testing.T, folder string, selects func(task string) bool) map[string]int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, path := range all {
		env, err := os.ReadFile(path) // it may end meanwhile
		if err != nil || !bytes.Contains(env, []byte("MESOS_EXECUTOR_ID=")) {
			continue
		}
		variables := map[string]string{}
		for v := range strings.SplitSeq(string(env), "\x00") {
			name, value, _ := strings.Cut(v, "=")
			variables[name] = value
		}
		task := variables["MESOS_EXECUTOR_ID"]
		if task == "" || !selects(task) || !strings.HasPrefix(variables["MESOS_SANDBOX"], folder) {
			continue
		}
		argv, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil || !bytes.HasSuffix(argv, []byte("\x00executor\x00")) {
			continue
		}
		if found[task], err = strconv.Atoi(filepath.Base(filepath.Dir(path))); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// listContainers returns the names of an image's containers, running or not, without those of
// earlier test runs.
func listContainers(t *testing.T, docker *client.Client, image string) []string {
	t.Helper()
	list, err := docker.ContainerList(t.Context(), container.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range list {
		if strings.HasPrefix(c.Image, image) && c.Created >= runStarted.Unix() {
			names = append(names, strings.TrimPrefix(c.Names[0], "/"))
		}
	}
	return names
}

// listCgroups returns the cgroups of the executor of the container.
func listCgroups(t *testing.T, name string) []string {
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

func listClaims(t *testing.T, dir string) []string {
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

// startSleepTask loads an image, submits a long-running Docker task with it, and waits until
// the task runs.
func startSleepTask(t *testing.T, c *cluster, docker *client.Client, name string) (image string) {
	t.Helper()
	image = testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-"+name, nil, nil))
	c.mustRun("submit", writeJobFile(t, name, fmt.Sprintf("name: %s\ngpus: 1\ncpus: 0.1\nmem: 256MiB\nretries: 1\nkill_grace: "+
		"0s\nimage: %s\ncommand: sleep 1000\n",
		name, image)))
	c.awaitJob(name, isRunningAttempt(1))
	return image
}

// isRunningAttempt returns a condition that holds while a job's first task runs in the given
// attempt.
func isRunningAttempt(attempt int) func(*api.JobView) bool {
	return func(v *api.JobView) bool { return v.Tasks[0].State == job.Running && v.Tasks[0].Attempt == attempt }
}

// checkTaskAfterExecutorKill kills the executor of a Docker task. The task must be retried,
// and the container, the claim and the cgroups of the killed executor must be removed first.
func checkTaskAfterExecutorKill(t *testing.T, c *cluster, docker *client.Client, name, claims string) {
	t.Helper()
	image := startSleepTask(t, c, docker, name)
	before := listContainers(t, docker, image)
	if len(before) != 1 || len(listCgroups(t, before[0])) == 0 {
		t.Fatalf("containers %v, cgroups of the first %v", before, listCgroups(t, before[0]))
	}
	pid := findExecutor(t, taskID(t, c, name))
	if pid == 0 {
		t.Fatal("found no executor")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	view := c.awaitJob(name, isRunningAttempt(2))
	if v := view.Tasks[0]; v.Failures+v.Losses != 1 {
		t.Errorf("the task counts %d failures and %d losses, want one of either", v.Failures, v.Losses)
	}
	after := listContainers(t, docker, image)
	if len(after) != 1 || after[0] == before[0] {
		t.Errorf("containers were %v, are %v; want another one", before, after)
	}
	if got := listClaims(t, claims); !slices.Equal(got, after) {
		t.Errorf("claims are %v, containers %v", got, after)
	}
	apachemesos.PollUntil(t, "the killed executor's cgroups to go", func() bool { return len(listCgroups(t, before[0])) == 0 })
	c.mustRun("kill", name)
	c.awaitJobEnd(name)
	if got := listContainers(t, docker, image); len(got) > 0 {
		t.Errorf("left containers %v", got)
	}
	if got := listClaims(t, claims); len(got) > 0 {
		t.Errorf("left claims %v", got)
	}
}

func TestTaskIsRetriedAfterExecutorKill(t *testing.T) {
	testneeds.RequireRoot(t)
	docker := testneeds.RequireDockerEngine(t)
	work := t.TempDir()
	c := startCluster(t, "--work-dir", work)
	checkTaskAfterExecutorKill(t, c, docker, "killed", filepath.Join(work, "claims"))
	c.stop()
	requireNothingLeft(t, work)
}
