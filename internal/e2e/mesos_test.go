//go:build mesos

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/need"
	"mesos-gpu/internal/testimage"
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
	master, agent string
	processes     []process
	images        string
}

// process is a running program; ended is closed when it is not any more.
type process struct {
	*exec.Cmd
	ended chan struct{}
}

func (m *mesos) last() process { return m.processes[len(m.processes)-1] }

// program finds one of Mesos's programs on PATH or under MESOS_PREFIX.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"sbin", "bin"} {
		path := filepath.Join(os.Getenv("MESOS_PREFIX"), dir, name)
		if os.Getenv("MESOS_PREFIX") != "" && exists(path) {
			return path
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s on PATH or under MESOS_PREFIX (%q)", name, os.Getenv("MESOS_PREFIX"))
	}
	return path
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// namespace prepares the agent's view of the machine and becomes the agent.
// Mesos refuses a cgroup2 file system beside the v1 hierarchies.
const namespace = `set -e
mount --make-rprivate /
umount /sys/fs/cgroup/unified 2>/dev/null || true
mkdir -p "$WORK/dev"
mount -t tmpfs -o mode=755 tmpfs "$WORK/dev"
cp -a /dev/. "$WORK/dev/"
for n in 0 1 2 3; do mknod -m 666 "$WORK/dev/nvidia$n" c 195 $n; done
mknod -m 666 "$WORK/dev/nvidiactl" c 195 255
mknod -m 666 "$WORK/dev/nvidia-uvm" c 510 0
mkdir -p "$WORK/nodes" "$WORK/dev/pts" "$WORK/dev/shm"
for n in 0 1 2 3; do mknod -m 666 "$WORK/nodes/nvidia$n" c 195 $n; done
mknod -m 666 "$WORK/nodes/nvidiactl" c 195 255
mknod -m 666 "$WORK/nodes/nvidia-uvm" c 510 0
mount --bind /dev/pts "$WORK/dev/pts"
mount --bind "$WORK/dev" /dev
exec "$@"`

// stock are the flags of an agent that isolates GPUs by Mesos's own means and
// names their type by an attribute.
var stock = []string{"--isolation=cgroups/devices,gpu/nvidia,filesystem/linux,docker/runtime", "--attributes=gpu_type:V100"}

func startMesos(t *testing.T, agentFlags ...string) *mesos {
	t.Helper()
	need.Root(t)
	masterProgram, agentProgram := program(t, "mesos-master"), program(t, "mesos-agent")
	work := t.TempDir()
	m := &mesos{master: freeAddr(t), agent: freeAddr(t), images: filepath.Join(work, "images")}
	if err := os.MkdirAll(m.images, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.stop(t) })
	_, port, _ := strings.Cut(m.master, ":")
	m.spawn(t, nil, masterProgram, "--ip=127.0.0.1", "--hostname=127.0.0.1", "--port="+port, "--work_dir="+filepath.Join(work, "master"),
		"--registry=in_memory", "--allocation_interval=200ms")
	await(t, m.last(), "http://"+m.master+"/health")
	_, port, _ = strings.Cut(m.agent, ":")
	lib := filepath.Join(work, "lib")
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	nvmltest.Build(t, lib)
	host, err := simulated.Host("4xV100", "mesos")
	if err != nil {
		t.Fatal(err)
	}
	nvmltest.Report(t, host)
	env := []string{"WORK=" + work, "LD_LIBRARY_PATH=" + lib + ":" + os.Getenv("LD_LIBRARY_PATH")}
	executorEnv := fmt.Sprintf(`--executor_environment_variables={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "MESOS_GPU_DEV": "%s/nodes", "MESOS_GPU_VOLUMES": "%s/volumes", "MESOS_GPU_DRIVER_ROOT": "%s/driver"}`, work, work, work)
	if err := volumemgr.SimulatedRoot(filepath.Join(work, "driver"), host.Driver); err != nil {
		t.Fatal(err)
	}
	flags := append([]string{"-c", namespace, "sh", agentProgram, "--ip=127.0.0.1", "--hostname=127.0.0.1", "--port=" + port, "--master=" + m.master,
		"--work_dir=" + filepath.Join(work, "agent"), "--runtime_dir=" + filepath.Join(work, "run"), "--containerizers=mesos",
		"--image_providers=docker", "--docker_registry=" + m.images,
		"--launcher=linux", executorEnv, "--cgroups_root=mesos-gpu-test", "--no-systemd_enable_support"}, agentFlags...)
	m.spawn(t, env, "unshare", append([]string{"-m", "sh"}, flags...)...)
	await(t, m.last(), "http://"+m.agent+"/health")
	return m
}

func (m *mesos) spawn(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	c := exec.Command(name, args...)
	log := newLines()
	c.Stdout, c.Stderr = log, log
	c.Env = append(os.Environ(), env...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p := process{c, make(chan struct{})}
	go func() { defer close(p.ended); _ = c.Wait() }()
	m.processes = append(m.processes, p)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(name), tail(log.String()))
		}
	})
}

func tail(s string) string { return s[max(0, len(s)-8000):] }

// stop ends agent and master and what the agent's containers left.
func (m *mesos) stop(t *testing.T) {
	for i := len(m.processes) - 1; i >= 0; i-- {
		_ = m.processes[i].Process.Kill() // it may have ended
		<-m.processes[i].ended
	}
	// A killed process leaves its cgroup a moment later, and says so to nobody.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		killCgroup("/sys/fs/cgroup/freezer/mesos-gpu-test")
		roots, err := filepath.Glob("/sys/fs/cgroup/*/mesos-gpu-test")
		if err != nil {
			t.Fatal(err)
		}
		if len(roots) == 0 {
			return
		}
		for _, root := range roots {
			removeCgroup(root)
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("cgroups %v are still there %s after everything was killed", roots, patience)
		}
	}
}

func killCgroup(root string) {
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		for pid := range strings.FieldsSeq(string(text)) {
			var n int
			if _, err := fmt.Sscan(pid, &n); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
		return nil
	})
}

func removeCgroup(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeCgroup(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}

// await polls an outside program that tells of its start in no other way.
func await(t *testing.T, p process, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-tick.C:
		case <-p.ended:
			t.Fatalf("%s ended before it answered", p.Args)
		case <-ctx.Done():
			t.Fatalf("%s does not answer within %s", url, patience)
		}
	}
}

// scheduler runs "mesos-gpu scheduler" against the master.
func (m *mesos) scheduler(t *testing.T, args ...string) *cluster {
	t.Helper()
	return launch(t, append([]string{"scheduler", "--master", "http://" + m.master, "--listen", "127.0.0.1:0", "--executor", binary,
		"--journal", filepath.Join(t.TempDir(), "journal")}, args...)...)
}

// The same job file as in the demo, on a stock agent.
func TestMesosRunsTheDemoJob(t *testing.T) {
	m := startMesos(t, stock...)
	c := m.scheduler(t)
	text, err := os.ReadFile(example("hello-gpu.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c.must("submit", write(t, "hello-gpu", string(text)))
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
	docker := need.DockerEngine(t)
	image := testimage.Load(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-mesos", map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"}, nil))
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
	docker := need.DockerEngine(t)
	image := testimage.Load(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-unified:latest", nil, nil))
	m := startMesos(t, stock...)
	save(t, docker, image, filepath.Join(m.images, image+".tar"))
	c := m.scheduler(t)
	r := c.do("run", "--container", "mesos", "--image", image, "--gpus", "1", "--gpu-type", "V100", "--", "sh", "-c", inside)
	if r.code != 0 && strings.Contains(r.err, "sysrq-trigger") {
		t.Skip("this kernel has no /proc/sysrq-trigger, without which Mesos starts no container with an image")
	}
	if open, denied := len(enxio.FindAllString(r.out, -1)), len(eperm.FindAllString(r.out, -1)); r.code != 0 || open != 1 || denied != 3 {
		t.Errorf("status %d, %d nodes open and %d denied, want 0, 1 and 3:\n%s%s", r.code, open, denied, r.out, r.err)
	}
}

// save writes an archive as the engine does: Mesos reads the older of its two
// formats only.
func save(t *testing.T, docker *client.Client, image, path string) {
	t.Helper()
	r, err := docker.ImageSave(t.Context(), []string{image})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, r); err != nil {
		t.Fatal(err)
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
	m.spawn(t, nil, binary, "agent", "--simulate", "2xV100,1xK80", "--agent", "http://"+m.agent, "--state-dir", t.TempDir())
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
	c.must("submit", example("gang.yaml"))
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
	c.must("submit", write(t, "bound.yaml", "name: bound\ntasks: 3\ngpus: 1\nrole: research\ncpus: 0.1\nmem: 32\ncommand: sleep 1000\n"))
	if view := c.await("bound", running(2)); !strings.Contains(view.Waits, "role research may hold 2 V100 and holds 2") {
		t.Errorf("the third task waits because %q", view.Waits)
	}
	c.must("submit", write(t, "low.yaml", "name: low\ntasks: 2\ngpus: 1\nrole: guests\npreemptible: true\ncpus: 0.1\nmem: 32\ncommand: sleep 1000\n"))
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
