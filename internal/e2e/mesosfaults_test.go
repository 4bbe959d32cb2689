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
	"mesos-gpu/internal/apachemesos"
	"mesos-gpu/internal/testimage"
	"mesos-gpu/internal/testneeds"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/job"
)

func TestMesosExecutorIsKilled(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	m := startMesos(t, stock...)
	executorIsKilled(t, m.scheduler(t), docker, "mesos-killed", m.claims)
}

// The agent is killed and comes back: the task goes on, and its executor
// hears of its end from the new one.
func TestMesosAgentRestart(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	m := startMesos(t, stock...)
	c := m.scheduler(t)
	image := sleeper(t, c, docker, "restart")
	before, pid := containersOf(t, docker, image), executorOf(t, task(t, c, "restart"))
	m.process.Kill(t)
	m.process = m.process.Restart(t)
	m.process.AwaitReady(t)
	c.must("kill", "restart")
	c.await("restart", func(v *api.JobView) bool {
		if !v.Terminal {
			if now := containersOf(t, docker, image); len(now) > 0 && !slices.Equal(now, before) {
				t.Errorf("containers were %v, are %v", before, now)
			}
		}
		return v.Terminal
	})
	if view := c.await("restart", func(v *api.JobView) bool { return v.Terminal }); view.Tasks[0].Attempt != 1 || view.Tasks[0].State != job.Killed {
		t.Errorf("the task ended %s in attempt %d, want KILLED in attempt 1", view.Tasks[0].State, view.Tasks[0].Attempt)
	}
	if got := containersOf(t, docker, image); len(got) > 0 {
		t.Errorf("left containers %v", got)
	}
	if pid == 0 {
		t.Error("found no executor before the restart")
	}
}

// The agent does not come back: the executor ends its task, and itself.
func TestMesosAgentIsGoneForGood(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	m := startMesos(t, append([]string{"--recovery_timeout=3secs"}, stock...)...)
	c := m.scheduler(t)
	image := sleeper(t, c, docker, "orphan")
	id := task(t, c, "orphan")
	m.process.Kill(t)
	if executorOf(t, id) == 0 {
		t.Fatal("the executor ended with its agent")
	}
	apachemesos.PollUntil(t, "the container to go", func() bool { return len(containersOf(t, docker, image)) == 0 })
	apachemesos.PollUntil(t, "the executor to end", func() bool { return executorOf(t, id) == 0 })
	if got := claimsIn(t, m.claims); len(got) > 0 {
		t.Errorf("left claims %v", got)
	}
}

// An image wants more of the driver than one agent has: the job tells so, does
// not try that agent again, and runs on another as soon as there is one.
func TestMesosImageFitsAnotherAgent(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-new", nil, []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"}))
	old := withDriver(t, apachemesos.StartMaster(t, "--allocation_interval=200ms").Addr, "127.0.0.1", simulated.DriverVersion, "12.2")
	c := old.scheduler(t)
	c.must("submit", write(t, "picky", "name: picky\ngpus: 1\ncpus: 0.1\nmem: 256MiB\nimage: "+image+"\ncommand: cat /proc/1/mounts\n"))
	view := c.await("picky", func(v *api.JobView) bool { return v.Tasks[0].Attempt == 2 })
	for _, want := range []string{"could not start on 127.0.0.1", "cuda>=12.4", simulated.DriverVersion, "12.2"} {
		if !strings.Contains(view.Tasks[0].Message, want) {
			t.Errorf("the message lacks %q: %s", want, view.Tasks[0].Message)
		}
	}
	// Its offers come and go meanwhile.
	if out := c.must("run", "--gpus", "4", "--cpus", "0.1", "--mem", "32", "--", "echo", "free"); out != "free\n" {
		t.Errorf("another job says %q", out)
	}
	withDriver(t, old.master, "127.0.0.2", "550.54.15", "12.4")
	view = c.await("picky", func(v *api.JobView) bool { return v.Terminal })
	if got := view.Tasks[0]; got.State != job.Finished || got.Attempt != 2 || got.Hostname != "127.0.0.2" {
		t.Errorf("ended %s in attempt %d on %s, want FINISHED in attempt 2 on 127.0.0.2: %s", got.State, got.Attempt, got.Hostname, got.Message)
	}
	if out := c.must("logs", view.Tasks[0].ID); !strings.Contains(out, " /usr/local/nvidia ") {
		t.Errorf("no driver volume in\n%s", out)
	}
}

// withDriver is an agent whose daemon reports that driver.
func withDriver(t *testing.T, master, ip, version, cuda string) *mesos {
	t.Helper()
	h, err := simulated.NewHost("4xV100", filepath.Base(ip))
	if err != nil {
		t.Fatal(err)
	}
	h.Driver, h.CUDA = version, cuda
	m := join(t, master, ip, version, nil, append([]string{"--attributes=gpu_type:V100;gpu_driver:" + version}, stock[0])...)
	m.watched(t, h, simulated.NewIdleSource(h), false)
	return m
}

// One job file, and the same output, under both containerizers.
func TestMesosOneJobFileUnderBothContainerizers(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-everything-mesos:latest", nil, nil))
	m := startMesos(t, "--isolation=cgroups/cpu,cgroups/mem,filesystem/linux,docker/runtime,posix/rlimits,namespaces/ipc")
	testimage.SaveImage(t, docker, image, m.images)
	c := m.scheduler(t, "--allow-volumes", os.TempDir())
	for _, containerizer := range []string{"docker", "mesos"} {
		view, out := runEverything(t, c, containerizer, image)
		if containerizer == "mesos" && strings.Contains(view.Tasks[0].Message, "sysrq-trigger") {
			t.Skip("this kernel has no /proc/sysrq-trigger, without which Mesos starts no container with an image")
		}
		if view.State != job.Finished || out != everythingSays {
			t.Errorf("%s: ended %s, saying\n%swant\n%s%s", containerizer, view.State, out, everythingSays, view.Tasks[0].Message)
		}
	}
}

// counting is a job that writes 240 kB, with a pause after each tenth of it.
const counting = `i=0; while [ $i -lt %d ]; do echo "line $i of the output of a task that says much"; i=$((i+1)); [ $((i %% 500)) -ne 0 ] || sleep %s; done`

// followsRotation runs a task that writes several log files full, and follows
// its log: no line is missing or comes twice.
func followsRotation(t *testing.T, c *cluster, pause string, args ...string) {
	t.Helper()
	const lines = 5000
	out := c.must(append(append([]string{"run", "--cpus", "0.2", "--mem", "64"}, args...), "--", "sh", "-c", fmt.Sprintf(counting, lines, pause))...)
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

// A log is followed while its files are rotated, of a container and of a
// process.
func TestMesosLogsFollowRotation(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-rotation", nil, nil))
	m := join(t, apachemesos.StartMaster(t, "--allocation_interval=200ms").Addr, "127.0.0.1", simulated.DriverVersion, map[string]string{"MESOS_GPU_LOG_SIZE": "64KiB"}, stock...)
	c := m.scheduler(t)
	t.Run("docker", func(t *testing.T) { followsRotation(t, c, "0.2", "--image", image) })
	// The executor looks at a process's output every few seconds.
	t.Run("mesos", func(t *testing.T) { followsRotation(t, c, "1.5") })
}

// A task that writes more than its disk is ended, whether it writes to its
// sandbox or into its container.
func TestMesosDiskLimit(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-disk", nil, nil))
	m := startMesos(t, stock...)
	c := m.scheduler(t)
	for name, text := range map[string]string{
		"sandbox":   "command: dd if=/dev/zero of=big bs=1M count=200 2>/dev/null; sleep 1000",
		"container": "image: " + image + "\ncommand: dd if=/dev/zero of=/tmp/big bs=1M count=200 2>/dev/null; sleep 1000",
	} {
		t.Run(name, func(t *testing.T) {
			c.must("submit", write(t, name, "name: "+name+"\ncpus: 0.1\nmem: 256MiB\ndisk: 64MiB\n"+text+"\n"))
			task := c.await(name, func(v *api.JobView) bool { return v.Terminal }).Tasks[0]
			if task.State != job.Failed || task.Reason != "REASON_CONTAINER_LIMITATION_DISK" || !strings.Contains(task.Message, "limit is") {
				t.Errorf("ended %s, reason %s: %s", task.State, task.Reason, task.Message)
			}
		})
	}
}
