//go:build mesos

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/simulated"
)

// newGPUApp returns an app whose instances have one GPU each. Its constraint permits agents
// with V100 or A100.
func newGPUApp(t *testing.T, id, container, release string, instances int) string {
	t.Helper()
	return fmt.Sprintf(`{"id": %q, "cmd": %s, "gpus": 1, "cpus": 0.1, "mem": 128, "instances": %d, "env": {"RELEASE": %q},
		"container": %s, "constraints": [["gpu_type", "LIKE", "V100|A100"]], "taskKillGracePeriodSeconds": 1}`,
		id, quoteJSON(t, "("+deviceReportScript+")\nexec sleep 1000"), instances, release, container)
}

// TestMesosMarathonApps runs apps with GPUs on Apache Mesos, in Docker and Mesos containers:
// placement by GPU type, scaling, an update, and an update that the next scheduler completes
// after the first one was killed.
func TestMesosMarathonApps(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-marathon", nil, nil))
	m := startMesos(t, stockAgentFlags...)
	startMesosAgent(t, m.master, "127.0.0.2", simulated.DriverVersion, nil, stockAgentFlags[0], "--attributes=gpu_type:K80")
	journal := filepath.Join(t.TempDir(), "journal")
	c := m.startScheduler(t, "--journal", journal)

	inDocker := `{"type": "DOCKER", "docker": {"image": "` + image + `"}}`
	c.mustCallMarathon(http.MethodPost, "/apps", newGPUApp(t, "/gpu/docker", inDocker, "1", 1))
	c.mustCallMarathon(http.MethodPost, "/apps", newGPUApp(t, "/gpu/mesos", `{"type": "MESOS"}`, "1", 1))
	for _, id := range []string{"/gpu/docker", "/gpu/mesos"} {
		requireV100Agent(t, c.awaitApp(id, "run", (*appView).isUpToDate))
		awaitOneOpenGPU(t, c, id)
	}
	c.mustCallMarathon(http.MethodPut, "/apps/gpu/docker", `{"instances": 2}`)
	first := c.awaitApp("/gpu/docker", "be scaled", (*appView).isUpToDate)
	requireV100Agent(t, first)

	// Three of four GPUs are in use, so the two instances are replaced one by one.
	c.mustCallMarathon(http.MethodPut, "/apps/gpu/docker", newGPUApp(t, "/gpu/docker", inDocker, "2", 2))
	second := c.awaitApp("/gpu/docker", "be updated", (*appView).isUpToDate)
	requireV100Agent(t, second)
	if second.VersionInfo == first.VersionInfo {
		t.Error("the update left the version as it was")
	}

	c.mustCallMarathon(http.MethodPut, "/apps/gpu/docker", newGPUApp(t, "/gpu/docker", inDocker, "3", 2))
	c.awaitApp("/gpu/docker", "be half updated", func(a *appView) bool {
		return len(a.Deployments) > 0 && len(a.Tasks) > 2 // a third instance, of the new version
	})
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.ended
	c = m.startScheduler(t, "--journal", journal)
	third := c.awaitApp("/gpu/docker", "be updated by the next scheduler", (*appView).isUpToDate)
	if third.VersionInfo == second.VersionInfo {
		t.Error("the next scheduler did not go on with the update")
	}
	requireV100Agent(t, third)

	for _, id := range []string{"/gpu/docker", "/gpu/mesos"} {
		c.mustCallMarathon(http.MethodDelete, "/apps"+id, "")
	}
	apachemesos.PollUntil(t, "all apps to go", func() bool { return c.countApps() == 0 })
	if left := listContainers(t, docker, image); len(left) > 0 {
		t.Errorf("left containers %v", left)
	}
	if out := c.mustRun("run", "--gpus", "4", "--gpu-type", "V100", "--cpus", "0.1", "--mem", "64", "--", "echo", "free"); out != "free\n" {
		t.Errorf("got %q", out)
	}
}

func requireV100Agent(t *testing.T, a *appView) {
	t.Helper()
	for _, task := range a.Tasks {
		if task.Host != "127.0.0.1" {
			t.Errorf("%s is on %s, which has no V100", task.ID, task.Host)
		}
	}
}

// awaitOneOpenGPU waits until the log of an app's only instance shows that it can open exactly
// one of four GPUs.
func awaitOneOpenGPU(t *testing.T, c *cluster, id string) {
	t.Helper()
	task := c.getApp(id).Tasks[0].ID
	apachemesos.PollUntil(t, id+" to report its GPUs", func() bool {
		out := c.run("logs", task).out // there is no log at first
		return len(openedDevice.FindAllString(out, -1)) == 1 && len(deniedDevice.FindAllString(out, -1)) == 3
	})
}

// TestMesosMarathonBackoffGrows checks that a failing instance is restarted with a growing
// backoff.
func TestMesosMarathonBackoffGrows(t *testing.T) {
	master := apachemesos.StartMaster(t, "--allocation_interval=200ms")
	m := &mesos{master: master.Addr}
	apachemesos.AgentProcess{Master: m.master, IP: "127.0.0.1", Flags: []string{"--isolation=cgroups/cpu,cgroups/mem"}}.Start(t).AwaitReady(t)
	c := m.startScheduler(t)
	posted := time.Now()
	c.mustCallMarathon(http.MethodPost, "/apps", `{"id": "/broken", "cmd": "exit 3", "cpus": 0.1, "mem": 64, "backoffSeconds": 1, "backoffFactor": 3}`)
	view := c.awaitApp("/broken", "fail three times", func(a *appView) bool {
		return a.LastTaskFailure != nil && attemptNumber(t, a.LastTaskFailure.TaskID) >= 3
	})
	if took := time.Since(posted); took < 4*time.Second {
		t.Errorf("the third attempt failed %s after the app was posted, want two pauses, of 1 and 3 s", took)
	}
	if !strings.Contains(view.LastTaskFailure.Message, "status 3") {
		t.Errorf("the message of the failure is %q", view.LastTaskFailure.Message)
	}
	c.mustCallMarathon(http.MethodDelete, "/apps/broken?force=true", "")
	apachemesos.PollUntil(t, "the app to go", func() bool { return c.countApps() == 0 })
}

// attemptNumber returns the attempt in a task ID, which is JOB.INDEX.ATTEMPT.TIME.
func attemptNumber(t *testing.T, id string) int {
	t.Helper()
	parts := strings.Split(id, ".")
	n, err := strconv.Atoi(parts[max(0, len(parts)-2)])
	if err != nil {
		t.Fatalf("task id %q: %v", id, err)
	}
	return n
}

// quoteJSON encodes a text as JSON.
func quoteJSON(t *testing.T, text string) string {
	t.Helper()
	out, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
