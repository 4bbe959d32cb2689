//go:build mesos

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/job"
)

func TestMesosTaskIsRetriedAfterExecutorKill(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	m := startMesos(t, stockAgentFlags...)
	checkTaskAfterExecutorKill(t, m.startScheduler(t), docker, "mesos-killed", m.claimsDir)
}

// TestMesosTaskSurvivesAgentRestart kills and restarts the agent. The task must keep running,
// and its later end must be reported through the restarted agent.
func TestMesosTaskSurvivesAgentRestart(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	m := startMesos(t, stockAgentFlags...)
	c := m.startScheduler(t)
	image := startSleepTask(t, c, docker, "restart")
	before, pid := listContainers(t, docker, image), findExecutor(t, taskID(t, c, "restart"))
	m.process.Kill(t)
	m.process = m.process.Restart(t)
	m.process.AwaitReady(t)
	c.mustRun("kill", "restart")
	c.awaitJob("restart", func(v *api.JobView) bool {
		if !v.Terminal {
			if now := listContainers(t, docker, image); len(now) > 0 && !slices.Equal(now, before) {
				t.Errorf("containers were %v, are %v", before, now)
			}
		}
		return v.Terminal
	})
	if view := c.awaitJob("restart", func(v *api.JobView) bool { return v.Terminal }); view.Tasks[0].Attempt != 1 || view.Tasks[0].State != job.Killed {
		t.Errorf("the task ended %s in attempt %d, want KILLED in attempt 1", view.Tasks[0].State, view.Tasks[0].Attempt)
	}
	if got := listContainers(t, docker, image); len(got) > 0 {
		t.Errorf("left containers %v", got)
	}
	if pid == 0 {
		t.Error("found no executor before the restart")
	}
}

// TestMesosExecutorExitsWithoutAgent kills the agent for longer than the recovery timeout. The
// executor must end its task and exit.
func TestMesosExecutorExitsWithoutAgent(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	m := startMesos(t, append([]string{"--recovery_timeout=3secs"}, stockAgentFlags...)...)
	c := m.startScheduler(t)
	image := startSleepTask(t, c, docker, "orphan")
	id := taskID(t, c, "orphan")
	m.process.Kill(t)
	if findExecutor(t, id) == 0 {
		t.Fatal("the executor ended with its agent")
	}
	apachemesos.PollUntil(t, "the container to go", func() bool { return len(listContainers(t, docker, image)) == 0 })
	apachemesos.PollUntil(t, "the executor to end", func() bool { return findExecutor(t, id) == 0 })
	if got := listClaims(t, m.claimsDir); len(got) > 0 {
		t.Errorf("left claims %v", got)
	}
}

// TestMesosTaskAvoidsAgentWithOldDriver runs an image that requires a newer CUDA version than
// the first agent has. The job reports that, is not placed there again, and runs as soon as a
// suitable agent registers.
func TestMesosTaskAvoidsAgentWithOldDriver(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-new", nil, []string{
		"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=12.4",
	}))
	old := startAgentWithDriver(t, apachemesos.StartMaster(t, "--allocation_interval=200ms").Addr, "127.0.0.1", simulated.DriverVersion, "12.2")
	c := old.startScheduler(t)
	c.mustRun("submit", writeJobFile(t, "picky", "name: picky\ngpus: 1\ncpus: 0.1\nmem: 256MiB\nimage: "+image+"\ncommand: cat /proc/1/mounts\n"))
	view := c.awaitJob("picky", func(v *api.JobView) bool { return v.Tasks[0].Attempt == 2 })
	for _, want := range []string{"could not start on 127.0.0.1", "cuda>=12.4", simulated.DriverVersion, "12.2"} {
		if !strings.Contains(view.Tasks[0].Message, want) {
			t.Errorf("the message lacks %q: %s", want, view.Tasks[0].Message)
		}
	}
	// Offers of the unsuitable agent continue to arrive.
	if out := c.mustRun("run", "--gpus", "4", "--cpus", "0.1", "--mem", "32", "--", "echo", "free"); out != "free\n" {
		t.Errorf("the output of another job is %q", out)
	}
	startAgentWithDriver(t, old.master, "127.0.0.2", "550.54.15", "12.4")
	view = c.awaitJob("picky", func(v *api.JobView) bool { return v.Terminal })
	if got := view.Tasks[0]; got.State != job.Finished || got.Attempt != 2 || got.Hostname != "127.0.0.2" {
		t.Errorf("ended %s in attempt %d on %s, want FINISHED in attempt 2 on 127.0.0.2: %s", got.State, got.Attempt, got.Hostname, got.Message)
	}
	if out := c.mustRun("logs", view.Tasks[0].ID); !strings.Contains(out, " /usr/local/nvidia ") {
		t.Errorf("no driver volume in\n%s", out)
	}
}

// startAgentWithDriver starts an agent whose daemon reports the driver and CUDA version.
func startAgentWithDriver(t *testing.T, master, ip, version, cuda string) *mesos {
	t.Helper()
	h, err := simulated.NewHost("4xV100", filepath.Base(ip))
	if err != nil {
		t.Fatal(err)
	}
	h.Driver, h.CUDA = version, cuda
	m := startMesosAgent(t, master, ip, version, nil, append([]string{"--attributes=gpu_type:V100;gpu_driver:" + version}, stockAgentFlags[0])...)
	m.startHealthDaemon(t, h, simulated.NewLoadSource(h, func() []simulated.Process { return nil }), false)
	return m
}

// TestMesosOneJobFileUnderBothContainerizers checks that a job file has the same output under
// both containerizers of Apache Mesos.
func TestMesosOneJobFileUnderBothContainerizers(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-everything-mesos:latest", nil, nil))
	m := startMesos(t, "--isolation=cgroups/cpu,cgroups/mem,filesystem/linux,docker/runtime,posix/rlimits,namespaces/ipc")
	testimage.SaveImage(t, docker, image, m.imagesDir)
	c := m.startScheduler(t, "--allow-volumes", os.TempDir())
	for _, containerizer := range []string{"docker", "mesos"} {
		if containerizer == "mesos" {
			requireMesosImages(t)
		}
		view, out := runFullJob(t, c, containerizer, image)
		if view.State != job.Finished || out != fullJobOutput {
			t.Errorf("%s: ended %s, saying\n%swant\n%s%s", containerizer, view.State, out, fullJobOutput, view.Tasks[0].Message)
		}
	}
}

// writeLinesScript writes 240 kB with a pause after each tenth of it.
const writeLinesScript = `i=0; while [ $i -lt %d ]; do echo "line $i of the output of a task that says much"; i=$((i+1)); [ $((i %% 500)) -ne 0 ] || sleep %s; done`

// checkLogRotation runs a task whose output is rotated several times and follows its log. No
// line may be missing or repeated.
func checkLogRotation(t *testing.T, c *cluster, pause string, args ...string) {
	t.Helper()
	const lines = 5000
	out := c.mustRun(append(append([]string{"run", "--cpus", "0.2", "--mem", "64"}, args...), "--", "sh", "-c", fmt.Sprintf(writeLinesScript, lines, pause))...)
	got := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for i := range lines {
		if want := fmt.Sprintf("line %d of the output of a task that says much", i); i >= len(got) || got[i] != want {
			t.Fatalf("%d lines, and line %d is not %q but %q", len(got), i, want, got[min(i, len(got)-1)])
		}
	}
	if len(got) != lines {
		t.Errorf("%d lines, want %d", len(got), lines)
	}
}

// TestMesosLogsFollowRotation follows logs during rotation, of a Docker container and of a
// process.
func TestMesosLogsFollowRotation(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-rotation", nil, nil))
	m := startMesosAgent(t, apachemesos.StartMaster(t, "--allocation_interval=200ms").Addr, "127.0.0.1", simulated.DriverVersion,
		map[string]string{"MESOS_GPU_LOG_SIZE": "64KiB"}, stockAgentFlags...)
	c := m.startScheduler(t)
	t.Run("docker", func(t *testing.T) { checkLogRotation(t, c, "0.2", "--image", image) })
	// The executor checks the size of a process's output every few seconds.
	t.Run("mesos", func(t *testing.T) { checkLogRotation(t, c, "1.5") })
}

// TestMesosDiskLimit checks that a task which exceeds its disk limit is ended, whether it
// writes to its sandbox or to its container's file system.
func TestMesosDiskLimit(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-disk", nil, nil))
	m := startMesos(t, stockAgentFlags...)
	c := m.startScheduler(t)
	for name, text := range map[string]string{
		"sandbox":   "command: dd if=/dev/zero of=big bs=1M count=200 2>/dev/null; sleep 1000",
		"container": "image: " + image + "\ncommand: dd if=/dev/zero of=/tmp/big bs=1M count=200 2>/dev/null; sleep 1000",
	} {
		t.Run(name, func(t *testing.T) {
			c.mustRun("submit", writeJobFile(t, name, "name: "+name+"\ncpus: 0.1\nmem: 256MiB\ndisk: 64MiB\n"+text+"\n"))
			task := c.awaitJob(name, func(v *api.JobView) bool { return v.Terminal }).Tasks[0]
			if task.State != job.Failed || task.Reason != "REASON_CONTAINER_LIMITATION_DISK" || !strings.Contains(task.Message, "limit is") {
				t.Errorf("ended %s, reason %s: %s", task.State, task.Reason, task.Message)
			}
		})
	}
}
