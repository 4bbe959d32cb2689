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
	"mesos-gpu/internal/apachemesos"
	"mesos-gpu/internal/testimage"
	"mesos-gpu/internal/testneeds"
	"mesos-gpu/isolator/nvml/nvmltest"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/job"
	"mesos-gpu/volumemgr"
)

// mesos is a real master and agent. The agent runs in a mount namespace of
// its own whose /dev has four simulated GPU nodes, with a stand-in NVML, so
// Mesos's gpu/nvidia isolator finds four GPUs and confines containers to
// theirs.
type mesos struct {
	master, agent, images string
	// daemon is a folder for a GPU daemon, whose socket there executors know.
	daemon string
	// claims is where its executors claim their containers.
	claims  string
	process *apachemesos.MesosProcess
}

// nodes prepares the agent's view of the machine, at each of its starts.
const nodes = `rm -rf "$WORK/nodes"
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

// stock are the flags of an agent that isolates GPUs by Mesos's own means and
// names their type by an attribute.
var stock = []string{"--isolation=cgroups/devices,gpu/nvidia,filesystem/linux,docker/runtime", "--attributes=gpu_type:V100"}

func startMesos(t *testing.T, agentFlags ...string) *mesos {
	t.Helper()
	return join(t, apachemesos.StartMaster(t, "--allocation_interval=200ms").Addr, "127.0.0.1", simulated.DriverVersion, nil, agentFlags...)
}

// join starts an agent of that master, with that version of the driver and
// those settings of its executors.
func join(t *testing.T, master, ip, version string, settings map[string]string, agentFlags ...string) *mesos {
	t.Helper()
	m := &mesos{master: master}
	work := t.TempDir()
	m.images, m.daemon, m.claims = filepath.Join(work, "images"), t.TempDir(), filepath.Join(work, "claims")
	lib, driver := filepath.Join(work, "lib"), filepath.Join(work, "driver")
	for _, dir := range []string{m.images, lib} {
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
		"MESOS_GPU_SOCKET": m.socket(),
	}
	maps.Copy(env, settings)
	m.process = apachemesos.AgentProcess{
		Master: m.master, IP: ip, Prepare: nodes,
		Env:         []string{"WORK=" + work, "LD_LIBRARY_PATH=" + lib + ":" + os.Getenv("LD_LIBRARY_PATH")},
		ExecutorEnv: env,
		Flags:       append([]string{"--image_providers=docker", "--docker_registry=" + m.images}, agentFlags...),
	}.Start(t)
	m.process.AwaitReady(t)
	m.agent = m.process.Addr
	return m
}

func (m *mesos) socket() string { return filepath.Join(m.daemon, "agent.sock") }

// scheduler runs "mesos-gpu scheduler" against the master.
func (m *mesos) scheduler(t *testing.T, args ...string) *cluster {
	t.Helper()
	return launch(t, binary, append([]string{"scheduler", "--master", "http://" + m.master, "--listen", "127.0.0.1:0", "--executor", binary,
		"--journal", filepath.Join(t.TempDir(), "journal")}, args...)...)
}

// The same job file as in the demo, on a stock agent.
func TestMesosRunsTheDemoJob(t *testing.T) {
	m := startMesos(t, stock...)
	c := m.scheduler(t)
	c.must("submit", roomyExample(t, example("hello-gpu.yaml")))
	id := task(t, c, "hello-gpu")
	c.awaitEnd("hello-gpu")
	out := c.must("logs", "-f", id)
	if mine, denied := strings.Count(out, ": mine;"), strings.Count(out, ": denied"); mine != 1 || denied != 3 {
		t.Errorf("%d nodes open and %d denied, want 1 and 3:\n%s", mine, denied, out)
	}
	if view := c.must("describe", "hello-gpu"); !strings.Contains(view, "FINISHED") {
		t.Errorf("got:\n%s", view)
	}
}

func TestMesosRunExitsWithTheTasksCode(t *testing.T) {
	m := startMesos(t, stock...)
	c := m.scheduler(t)
	r := c.do("run", "--gpus", "2", "--gpu-type", "V100", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
	if r.code != 7 || r.out != "out\n" || !strings.Contains(r.err, "err\n") {
		t.Errorf("status %d, out %q, err %q", r.code, r.out, r.err)
	}
	if out := c.must("agents"); !strings.Contains(out, "V100") {
		t.Errorf("agents:\n%s", out)
	}
}

// A docker task on a stock agent, which gives docker tasks no GPU by itself.
func TestMesosDockerTaskSeesItsGPU(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-mesos", map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"}, nil))
	m := startMesos(t, stock...)
	c := m.scheduler(t)
	out := c.must("run", "--image", image, "--gpus", "1", "--gpu-type", "V100", "--", "sh", "-c", inside)
	if open, denied := len(enxio.FindAllString(out, -1)), len(eperm.FindAllString(out, -1)); open != 1 || denied != 3 {
		t.Errorf("%d nodes open and %d denied, want 1 and 3:\n%s", open, denied, out)
	}
	if !strings.Contains(out, "volume ro\n") || !strings.Contains(out, "libcuda there") {
		t.Errorf("no driver volume:\n%s", out)
	}
}

// A unified container with an image.
func TestMesosUnifiedImageSeesItsGPU(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-unified:latest", nil, nil))
	m := startMesos(t, stock...)
	testimage.SaveImage(t, docker, image, m.images)
	c := m.scheduler(t)
	r := c.do("run", "--container", "mesos", "--image", image, "--gpus", "1", "--gpu-type", "V100", "--", "sh", "-c", inside)
	if r.code != 0 && strings.Contains(r.err, "sysrq-trigger") {
		t.Skip("this kernel has no /proc/sysrq-trigger, without which Mesos starts no container with an image")
	}
	if open, denied := len(enxio.FindAllString(r.out, -1)), len(eperm.FindAllString(r.out, -1)); r.code != 0 || open != 1 || denied != 3 {
		t.Errorf("status %d, %d nodes open and %d denied, want 0, 1 and 3:\n%s%s", r.code, open, denied, r.out, r.err)
	}
}

// GPUs with identities through Mesos's resource provider API: the scheduler
// chooses them, and tasks at the same time hold different ones. This agent
// confines nothing, and every task says so.
func TestMesosProviderNamesDevices(t *testing.T) {
	flags := command(t, nil, "agent", "flags", "--simulate", "2xV100,1xK80")
	var attributes string
	for line := range strings.Lines(flags.out) {
		if strings.HasPrefix(line, "--attributes=") {
			attributes = strings.TrimSpace(line)
		}
	}
	m := startMesos(t, "--isolation=cgroups/cpu,cgroups/mem,filesystem/linux,docker/runtime", "--resources=gpus:0", attributes)
	apachemesos.Spawn(t, nil, binary, "agent", "--simulate", "2xV100,1xK80", "--agent", "http://"+m.agent,
		"--state-dir", m.daemon, "--runtime-dir", m.daemon, "--socket", m.socket(), "--listen", "")
	c := m.scheduler(t)
	out := c.must("run", "--tasks", "2", "--cpus", "0.2", "--gpus", "1", "--gpu-type", "V100", "--", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES; sleep 1")
	ids := strings.Fields(out)
	if len(ids) != 2 || ids[0] == ids[1] || !strings.HasPrefix(ids[0], "GPU-") {
		t.Errorf("the tasks held %q", ids)
	}
	if out := c.must("gpus"); strings.Count(out, "Tesla V100") != 2 || strings.Count(out, "Tesla K80") != 1 {
		t.Errorf("gpus:\n%s", out)
	}
}

func TestMesosKill(t *testing.T) {
	m := startMesos(t, stock...)
	c := m.scheduler(t)
	c.must("submit", write(t, "long", "name: long\ngpus: 4\ncommand: echo up; exec sleep 1000\n"))
	ended := runningTask(t, c, "long")
	c.must("kill", "long")
	<-ended
	if out := c.must("run", "--gpus", "4", "--", "echo", "free again"); out != "free again\n" {
		t.Errorf("got %q", out)
	}
}

// TestMesosKillByForce: a task that will not hear, with a kill grace longer
// than anybody waits, and one whose grace has begun, end at once.
func TestMesosKillByForce(t *testing.T) {
	m := startMesos(t, stock...)
	c := m.scheduler(t)
	for _, before := range []bool{false, true} {
		c.must("submit", write(t, "deaf", "name: deaf\ngpus: 4\nkill_grace: 10m\ncommand: trap '' TERM; echo up; while :; do sleep 0.1; done\n"))
		ended := runningTask(t, c, "deaf")
		if before {
			c.must("kill", "deaf")
			c.await("deaf", func(v *api.JobView) bool { return v.Tasks[0].State == job.Killing })
		}
		c.must("kill", "--force", "deaf")
		<-ended
		if view := c.await("deaf", func(v *api.JobView) bool { return v.Terminal }); view.State != job.Killed {
			t.Errorf("killed before: %t: it has %s, want KILLED", before, view.State)
		}
		if out := c.must("run", "--gpus", "4", "--", "echo", "free again"); out != "free again\n" {
			t.Errorf("got %q", out)
		}
	}
}

// A scheduler that is started again takes its tasks over.
func TestMesosSchedulerRestart(t *testing.T) {
	m := startMesos(t, stock...)
	journal := filepath.Join(t.TempDir(), "journal")
	first := m.scheduler(t, "--journal", journal)
	first.must("submit", write(t, "long", "name: long\ngpus: 1\ncommand: echo up; exec sleep 1000\n"))
	runningTask(t, first, "long")
	id := task(t, first, "long")
	first.stop()
	second := m.scheduler(t, "--journal", journal)
	if again := task(t, second, "long"); again != id {
		t.Errorf("task %s became %s", id, again)
	}
	second.must("kill", "long")
	second.awaitEnd("long")
	if view := second.must("describe", "long"); !strings.Contains(view, "KILLED") {
		t.Errorf("got:\n%s", view)
	}
}

// A gang on a real agent's own port range.
func TestMesosGangKnowsItsPeers(t *testing.T) {
	m := startMesos(t, stock...)
	c := m.scheduler(t)
	c.must("submit", roomyExample(t, example("gang.yaml")))
	c.awaitEnd("gang")
	view := c.await("gang", func(v *api.JobView) bool { return v.Terminal })
	for rank, task := range view.Tasks {
		if out, want := c.must("logs", task.ID), fmt.Sprintf("rank %d of 2, peers ", rank); !strings.HasPrefix(out, want) {
			t.Errorf("task %s says %q, want %q…", task.ID, out, want)
		}
	}
}

// Two roles of one framework: a quota by GPU type holds, and within a role a
// job of higher priority gets the place of preemptible ones, which come back.
func TestMesosRolesQuotasPreemption(t *testing.T) {
	m := startMesos(t, stock...) // four V100
	c := m.scheduler(t, "--roles", write(t, "roles.yaml", "research: V100=2\nguests: {weight: 2}\n"))
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
	c.must("submit", write(t, "bound.yaml", "name: bound\ntasks: 3\ngpus: 1\nrole: research\ncpus: 0.1\nmem: 256\ncommand: sleep 1000\n"))
	if view := c.await("bound", running(2)); !strings.Contains(view.WaitReason, "role research may hold 2 V100 and holds 2") {
		t.Errorf("the third task waits because %q", view.WaitReason)
	}
	c.must("submit", write(t, "low.yaml", "name: low\ntasks: 2\ngpus: 1\nrole: guests\npreemptible: true\ncpus: 0.1\nmem: 256\ncommand: sleep 1000\n"))
	c.await("low", running(2))
	if out := c.must("run", "--role", "guests", "--priority", "10", "--gpus", "2", "--cpus", "0.1", "--mem", "32", "--", "echo", "first"); out != "first\n" {
		t.Errorf("got %q", out)
	}
	view := c.await("low", running(2))
	for _, task := range view.Tasks {
		if task.Attempt != 2 {
			t.Errorf("task %s is attempt %d, want 2: the whole place was needed", task.ID, task.Attempt)
		}
	}
	c.must("kill", "bound")
	c.must("kill", "low")
	c.awaitEnd("low")
}
