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

	"mesos-gpu/internal/apachemesos"
	"mesos-gpu/internal/testimage"
	"mesos-gpu/internal/testneeds"
	"mesos-gpu/isolator/simulated"
)

// gpuApp is an app with a GPU, on agents with one of two types of them.
func gpuApp(t *testing.T, id, container, release string, instances int) string {
	t.Helper()
	return fmt.Sprintf(`{"id": %q, "cmd": %s, "gpus": 1, "cpus": 0.1, "mem": 128, "instances": %d, "env": {"RELEASE": %q},
		"container": %s, "constraints": [["gpu_type", "LIKE", "V100|A100"]], "taskKillGracePeriodSeconds": 1}`,
		id, quoted(t, "("+inside+")\nexec sleep 1000"), instances, release, container)
}

// Apps with GPUs on Apache Mesos, in containers of either kind: placed by the
// type of GPU, scaled, updated, and gone on with by a scheduler that takes
// over from one that was killed.
func TestMesosMarathonApps(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-marathon", nil, nil))
	m := startMesos(t, stock...)
	join(t, m.master, "127.0.0.2", simulated.DriverVersion, nil, stock[0], "--attributes=gpu_type:K80")
	journal := filepath.Join(t.TempDir(), "journal")
	c := m.scheduler(t, "--journal", journal)

	inDocker := `{"type": "DOCKER", "docker": {"image": "` + image + `"}}`
	c.deploys(http.MethodPost, "/apps", gpuApp(t, "/gpu/docker", inDocker, "1", 1))
	c.deploys(http.MethodPost, "/apps", gpuApp(t, "/gpu/mesos", `{"type": "MESOS"}`, "1", 1))
	for _, id := range []string{"/gpu/docker", "/gpu/mesos"} {
		onTheRightAgent(t, c.awaitApp(id, "run", (*appView).settled))
		seesOneGPU(t, c, id)
	}
	c.deploys(http.MethodPut, "/apps/gpu/docker", `{"instances": 2}`)
	first := c.awaitApp("/gpu/docker", "be scaled", (*appView).settled)
	onTheRightAgent(t, first)

	// Three of four GPUs are held: the two instances are replaced one by one.
	c.deploys(http.MethodPut, "/apps/gpu/docker", gpuApp(t, "/gpu/docker", inDocker, "2", 2))
	second := c.awaitApp("/gpu/docker", "be updated", (*appView).settled)
	onTheRightAgent(t, second)
	if second.VersionInfo == first.VersionInfo {
		t.Error("the update left the version as it was")
	}

	c.deploys(http.MethodPut, "/apps/gpu/docker", gpuApp(t, "/gpu/docker", inDocker, "3", 2))
	c.awaitApp("/gpu/docker", "be half updated", func(a *appView) bool {
		return len(a.Deployments) > 0 && len(a.Tasks) > 2 // a third instance, of the new version
	})
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.ended
	c = m.scheduler(t, "--journal", journal)
	third := c.awaitApp("/gpu/docker", "be updated by the next scheduler", (*appView).settled)
	if third.VersionInfo == second.VersionInfo {
		t.Error("the next scheduler did not go on with the update")
	}
	onTheRightAgent(t, third)

	for _, id := range []string{"/gpu/docker", "/gpu/mesos"} {
		c.deploys(http.MethodDelete, "/apps"+id, "")
	}
	apachemesos.PollUntil(t, "all apps to go", func() bool { return c.appsLeft() == 0 })
	if left := containersOf(t, docker, image); len(left) > 0 {
		t.Errorf("left containers %v", left)
	}
	if out := c.must("run", "--gpus", "4", "--gpu-type", "V100", "--cpus", "0.1", "--mem", "64", "--", "echo", "free"); out != "free\n" {
		t.Errorf("got %q", out)
	}
}

func onTheRightAgent(t *testing.T, a *appView) {
	t.Helper()
	for _, task := range a.Tasks {
		if task.Host != "127.0.0.1" {
			t.Errorf("%s is on %s, which has no V100", task.ID, task.Host)
		}
	}
}

// seesOneGPU waits for the word of an app's only instance about its nodes.
func seesOneGPU(t *testing.T, c *cluster, id string) {
	t.Helper()
	task := c.app(id).Tasks[0].ID
	apachemesos.PollUntil(t, id+" to look at its GPUs", func() bool {
		out := c.do("logs", task).out // there is no log at first
		return len(enxio.FindAllString(out, -1)) == 1 && len(eperm.FindAllString(out, -1)) == 3
	})
}

// An instance that fails is started again, after a pause that grows.
func TestMesosMarathonBackoff(t *testing.T) {
	master := apachemesos.StartMaster(t, "--allocation_interval=200ms")
	m := &mesos{master: master.Addr}
	apachemesos.AgentProcess{Master: m.master, IP: "127.0.0.1", Flags: []string{"--isolation=cgroups/cpu,cgroups/mem"}}.Start(t).AwaitReady(t)
	c := m.scheduler(t)
	posted := time.Now()
	c.deploys(http.MethodPost, "/apps", `{"id": "/broken", "cmd": "exit 3", "cpus": 0.1, "mem": 64, "backoffSeconds": 1, "backoffFactor": 3}`)
	view := c.awaitApp("/broken", "fail three times", func(a *appView) bool {
		return a.LastTaskFailure != nil && attempt(t, a.LastTaskFailure.TaskID) >= 3
	})
	if took := time.Since(posted); took < 4*time.Second {
		t.Errorf("the third attempt failed %s after the app was posted, want two pauses, of 1 and 3 s", took)
	}
	if !strings.Contains(view.LastTaskFailure.Message, "status 3") {
		t.Errorf("the failure says %q", view.LastTaskFailure.Message)
	}
	c.deploys(http.MethodDelete, "/apps/broken?force=true", "")
	apachemesos.PollUntil(t, "the app to go", func() bool { return c.appsLeft() == 0 })
}

// attempt is which one of its place a task is: its id is JOB.INDEX.ATTEMPT.WHEN.
func attempt(t *testing.T, id string) int {
	t.Helper()
	parts := strings.Split(id, ".")
	n, err := strconv.Atoi(parts[max(0, len(parts)-2)])
	if err != nil {
		t.Fatalf("task id %q: %v", id, err)
	}
	return n
}

// quoted is a text in JSON.
func quoted(t *testing.T, text string) string {
	t.Helper()
	out, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
