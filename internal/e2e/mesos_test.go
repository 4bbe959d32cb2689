//go:build mesos

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/nvmltest"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/job"
	"mesos-gpu/volumemgr"
)

// mesos is an Apache Mesos master and agent. The agent runs in a mount namespace whose /dev
// has four simulated GPU nodes, and with a fake NVML, so that Mesos's gpu/nvidia isolator
// finds four GPUs and isolates containers.
type mesos struct {
	master, agent, imagesDir string
	// daemonDir is the folder for a GPU daemon. Executors look for its socket there.
	daemonDir string
	// claimsDir is the folder in which executors record their containers.
	claimsDir string
	process   *apachemesos.MesosProcess
}

// prepareDevScript prepares /dev for the agent at each start.
const prepareDevScript = `rm -rf "$WORK/nodes"
mkdir -p "$WORK/dev"
mount -t tmpfs -o mode=755 tmpfs "$WORK/dev"
cp -a /dev/. "$WORK/dev/"
rm -f "$WORK"/dev/nvidia*
for n in 0 1 2 3; do mknod -m 666 "$WORK/dev/nvidia$n" c 195 $n; done
mknod -m 666 "$WORK/dev/nvidiactl" c 195 255
mknod -m 666 "$WORK/dev/nvidia-uvm" c 510 0
mkdir -p "$WORK/nodes" "$WORK/dev/pts" "$WORK/dev/shm"
for n in 0 1 2 3; do mknod -m 666 "$WORK/nodes/nvidia$n" c 195 $n; done
mknod -m 666 "$WORK/nodes/nvidiactl" c 195 255
mknod -m 666 "$WORK/nodes/nvidia-uvm" c 510 0
mount --bind /dev/pts "$WORK/dev/pts"
mount --rbind "$WORK/dev" /dev`

// stockAgentFlags are the flags of an agent that isolates GPUs with Mesos's own isolators and
// has the GPU type as an attribute.
var stockAgentFlags = []string{"--isolation=cgroups/devices,gpu/nvidia,filesystem/linux,docker/runtime", "--attributes=gpu_type:V100"}

func startMesos(t *testing.T, agentFlags ...string) *mesos {
	t.Helper()
	return startMesosAgent(t, apachemesos.StartMaster(t, "--allocation_interval=200ms").Addr, "127.0.0.1", simulated.DriverVersion, nil, agentFlags...)
}

// startMesosAgent starts an agent that registers with the master. version is the version of
// its driver, settings are added to the environment of its executors.
func startMesosAgent(t *testing.T, master, ip, version string, settings map[string]string, agentFlags ...string) *mesos {
	t.Helper()
	m := &mesos{master: master}
	work := t.TempDir()
	m.imagesDir, m.daemonDir, m.claimsDir = filepath.Join(work, "images"), t.TempDir(), filepath.Join(work, "claims")
	lib, driver := filepath.Join(work, "lib"), filepath.Join(work, "driver")
	for _, dir := range []string{m.imagesDir, lib} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	nvmltest.BuildLibrary(t, lib)
	host, err := simulated.NewHost("4xV100", "mesos")
	if err != nil {
		t.Fatal(err)
	}
	nvmltest.ReportHost(t, host)
	if err := volumemgr.WriteSimulatedDriver(driver, version); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"MESOS_GPU_DEV": filepath.Join(work, "nodes"), "MESOS_GPU_VOLUMES": filepath.Join(work, "volumes"), "MESOS_GPU_DRIVER_ROOT": driver,
		"MESOS_GPU_SOCKET": m.socketPath(),
	}
	maps.Copy(env, settings)
	m.process = apachemesos.AgentProcess{
		Master: m.master, IP: ip, Prepare: prepareDevScript,
		Env:         []string{"WORK=" + work, "LD_LIBRARY_PATH=" + lib + ":" + os.Getenv("LD_LIBRARY_PATH")},
		ExecutorEnv: env,
		Flags:       append([]string{"--image_providers=docker", "--docker_registry=" + m.imagesDir}, agentFlags...),
	}.Start(t)
	m.process.AwaitReady(t)
	m.agent = m.process.Addr
	return m
}

func (m *mesos) socketPath() string { return filepath.Join(m.daemonDir, "agent.sock") }

// startScheduler runs "mesos-gpu scheduler" with the master until the test ends.
func (m *mesos) startScheduler(t *testing.T, args ...string) *cluster {
	t.Helper()
	return startDaemon(t, binary, append([]string{"scheduler", "--master", "http://" + m.master, "--listen", "127.0.0.1:0", "--executor", buildReleased(t),
		"--journal", filepath.Join(t.TempDir(), "journal")}, args...)...)
}

// TestMesosRunsTheDemoJob runs the job file of the demo on an agent with Mesos's own
// isolators.
func TestMesosRunsTheDemoJob(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	c := m.startScheduler(t)
	c.mustRun("submit", examplePath("hello-gpu.yaml"))
	id := taskID(t, c, "hello-gpu")
	c.awaitJobEnd("hello-gpu")
	out := c.mustRun("logs", "-f", id)
	if mine, denied := strings.Count(out, ": mine;"), strings.Count(out, ": denied"); mine != 1 || denied != 3 {
		t.Errorf("%d nodes open and %d denied, want 1 and 3:\n%s", mine, denied, out)
	}
	if view := c.mustRun("describe", "hello-gpu"); !strings.Contains(view, "FINISHED") {
		t.Errorf("got:\n%s", view)
	}
}

func TestMesosRunExitsWithTheTasksCode(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	c := m.startScheduler(t)
	r := c.run("run", "--gpus", "2", "--gpu-type", "V100", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
	if r.code != 7 || r.out != "out\n" || !strings.Contains(r.err, "err\n") {
		t.Errorf("status %d, out %q, err %q", r.code, r.out, r.err)
	}
	if out := c.mustRun("agents"); !strings.Contains(out, "V100") {
		t.Errorf("agents:\n%s", out)
	}
}

func TestMesosTasksWithoutImageAreUnprivileged(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	checkProcessUser(t, m.startScheduler(t))
}

// TestMesosDockerTaskSeesOnlyItsGPU runs a Docker task on an agent with Mesos's own isolators,
// which do not give GPUs to Docker tasks.
func TestMesosDockerTaskSeesOnlyItsGPU(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-mesos",
		map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"}, nil))
	m := startMesos(t, stockAgentFlags...)
	c := m.startScheduler(t)
	out := c.mustRun("run", "--image", image, "--gpus", "1", "--gpu-type", "V100", "--", "sh", "-c", deviceReportScript)
	if open, denied := len(openedDevice.FindAllString(out, -1)), len(deniedDevice.FindAllString(out, -1)); open != 1 || denied != 3 {
		t.Errorf("%d nodes open and %d denied, want 1 and 3:\n%s", open, denied, out)
	}
	if !strings.Contains(out, "volume ro\n") || !strings.Contains(out, "libcuda there") {
		t.Errorf("no driver volume:\n%s", out)
	}
}

// TestMesosUnifiedImageSeesOnlyItsGPU runs a unified container with an image.
func TestMesosUnifiedImageSeesOnlyItsGPU(t *testing.T) {
	requireMesosImages(t)
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-unified:latest", nil, nil))
	m := startMesos(t, stockAgentFlags...)
	testimage.SaveImage(t, docker, image, m.imagesDir)
	c := m.startScheduler(t)
	r := c.run("run", "--container", "mesos", "--image", image, "--gpus", "1", "--gpu-type", "V100", "--", "sh", "-c", deviceReportScript)
	if open, denied := len(openedDevice.FindAllString(r.out, -1)), len(deniedDevice.FindAllString(r.out, -1)); r.code != 0 || open != 1 || denied != 3 {
		t.Errorf("status %d, %d nodes open and %d denied, want 0, 1 and 3:\n%s%s", r.code, open, denied, r.out, r.err)
	}
}

// TestMesosProviderOffersNamedDevices runs the GPU daemon, which offers GPUs by ID through the
// resource provider API. The scheduler assigns different devices to simultaneous tasks. The
// agent isolates no devices.
func TestMesosProviderOffersNamedDevices(t *testing.T) {
	flags := runCommand(t, nil, "agent", "flags", "--simulate", "2xV100,1xK80")
	var attributes string
	for line := range strings.Lines(flags.out) {
		if strings.HasPrefix(line, "--attributes=") {
			attributes = strings.TrimSpace(line)
		}
	}
	m := startMesos(t, "--isolation=cgroups/cpu,cgroups/mem,filesystem/linux,docker/runtime", "--resources=gpus:0", attributes)
	apachemesos.Spawn(t, nil, binary, "agent", "--simulate", "2xV100,1xK80", "--agent", "http://"+m.agent,
		"--state-dir", m.daemonDir, "--runtime-dir", m.daemonDir, "--socket", m.socketPath(), "--listen", "")
	c := m.startScheduler(t)
	out := c.mustRun("run", "--tasks", "2", "--cpus", "0.2", "--gpus", "1", "--gpu-type", "V100", "--", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES; sleep 1")
	ids := strings.Fields(out)
	if len(ids) != 2 || ids[0] == ids[1] || !strings.HasPrefix(ids[0], "GPU-") {
		t.Errorf("the tasks held %q", ids)
	}
	if out := c.mustRun("gpus"); strings.Count(out, "Tesla V100") != 2 || strings.Count(out, "Tesla K80") != 1 {
		t.Errorf("gpus:\n%s", out)
	}
}

func TestMesosKillFreesGPUs(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	c := m.startScheduler(t)
	c.mustRun("submit", writeJobFile(t, "long", "name: long\ngpus: 4\ncommand: echo up; exec sleep 1000\n"))
	ended := awaitRunningTask(t, c, "long")
	c.mustRun("kill", "long")
	<-ended
	if out := c.mustRun("run", "--gpus", "4", "--", "echo", "free again"); out != "free again\n" {
		t.Errorf("got %q", out)
	}
}

// TestMesosForcedKillIsImmediate kills tasks that ignore SIGTERM by force, before and during a
// kill grace period of 10 minutes. They must end immediately.
func TestMesosForcedKillIsImmediate(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	c := m.startScheduler(t)
	for _, before := range []bool{false, true} {
		c.mustRun("submit", writeJobFile(t, "deaf", "name: deaf\ngpus: 4\nkill_grace: 10m\ncommand: trap '' TERM; echo up; while :; do sleep 0.1; done\n"))
		ended := awaitRunningTask(t, c, "deaf")
		if before {
			c.mustRun("kill", "deaf")
			c.awaitJob("deaf", func(v *api.JobView) bool { return v.Tasks[0].State == job.Killing })
		}
		c.mustRun("kill", "--force", "deaf")
		<-ended
		if view := c.awaitJob("deaf", func(v *api.JobView) bool { return v.Terminal }); view.State != job.Killed {
			t.Errorf("killed before: %t: the job is %s, want KILLED", before, view.State)
		}
		if out := c.mustRun("run", "--gpus", "4", "--", "echo", "free again"); out != "free again\n" {
			t.Errorf("got %q", out)
		}
	}
}

// TestMesosTaskSurvivesSchedulerRestart checks that a restarted scheduler still manages the
// running task.
func TestMesosTaskSurvivesSchedulerRestart(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	journal := filepath.Join(t.TempDir(), "journal")
	first := m.startScheduler(t, "--journal", journal)
	first.mustRun("submit", writeJobFile(t, "long", "name: long\ngpus: 1\ncommand: echo up; exec sleep 1000\n"))
	awaitRunningTask(t, first, "long")
	id := taskID(t, first, "long")
	first.stop()
	second := m.startScheduler(t, "--journal", journal)
	if again := taskID(t, second, "long"); again != id {
		t.Errorf("task %s became %s", id, again)
	}
	second.mustRun("kill", "long")
	second.awaitJobEnd("long")
	if view := second.mustRun("describe", "long"); !strings.Contains(view, "KILLED") {
		t.Errorf("got:\n%s", view)
	}
}

// TestMesosGangTasksReceivePeerAddresses runs a gang with ports of a real agent's range.
func TestMesosGangTasksReceivePeerAddresses(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	c := m.startScheduler(t)
	c.mustRun("submit", examplePath("gang.yaml"))
	c.awaitJobEnd("gang")
	view := c.awaitJob("gang", func(v *api.JobView) bool { return v.Terminal })
	for rank, task := range view.Tasks {
		if out, want := c.mustRun("logs", task.ID), fmt.Sprintf("rank %d of 2, peers ", rank); !strings.HasPrefix(out, want) {
			t.Errorf("task %s prints %q, want %q…", task.ID, out, want)
		}
	}
}

// TestMesosRolesQuotasPreemption runs jobs in two roles of one framework. The quota for a GPU
// type is enforced, and within a role a job with a higher priority preempts jobs, which then
// run again.
func TestMesosRolesQuotasPreemption(t *testing.T) {
	m := startMesos(t, stockAgentFlags...) // four V100
	c := m.startScheduler(t, "--roles", writeJobFile(t, "roles.yaml", "research: V100=2\nguests: {weight: 2}\n"))
	running := func(n int) func(*api.JobView) bool {
		return func(v *api.JobView) bool {
			up := 0
			for _, task := range v.Tasks {
				if task.State == job.Running {
					up++
				}
			}
			return up == n
		}
	}
	c.mustRun("submit", writeJobFile(t, "bound.yaml", "name: bound\ntasks: 3\ngpus: 1\nrole: research\ncpus: 0.1\nmem: 256\ncommand: sleep 1000\n"))
	if view := c.awaitJob("bound", running(2)); !strings.Contains(view.WaitReason, "quota of role research for 1 more; it may hold 2 V100 and holds 2") {
		t.Errorf("the third task waits because %q", view.WaitReason)
	}
	c.mustRun("submit", writeJobFile(t, "low.yaml", "name: low\ntasks: 2\ngpus: 1\nrole: guests\npreemptible: true\ncpus: 0.1\nmem: 256\ncommand: sleep 1000\n"))
	c.awaitJob("low", running(2))
	if out := c.mustRun("run", "--role", "guests", "--priority", "10", "--gpus", "2", "--cpus", "0.1", "--mem", "32", "--", "echo", "first"); out != "first\n" {
		t.Errorf("got %q", out)
	}
	view := c.awaitJob("low", running(2))
	for _, task := range view.Tasks {
		if task.Attempt != 2 {
			t.Errorf("task %s is in attempt %d, want 2: both GPUs were needed", task.ID, task.Attempt)
		}
	}
	c.mustRun("kill", "bound")
	c.mustRun("kill", "low")
	c.awaitJobEnd("low")
}

// startsMesosImages reports whether Apache Mesos starts containers with images on this kernel.
func startsMesosImages() bool {
	_, err := os.Stat("/proc/sysrq-trigger")
	return err == nil
}

// requireMesosImages skips a test on a kernel on which Apache Mesos starts no container with an image.
func requireMesosImages(t *testing.T) {
	t.Helper()
	if !startsMesosImages() {
		t.Skip("this kernel has no /proc/sysrq-trigger, without which Mesos starts no container with an image")
	}
}
