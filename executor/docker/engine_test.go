package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"mesos-gpu/executor/task"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// host is a machine with four GPUs without a driver, and a driver volume.
type host struct {
	*EngineRuntime
	engine *client.Client
	volume string
}

func newHost(t *testing.T) host {
	t.Helper()
	testneeds.RequireRoot(t)
	engine := testneeds.RequireDockerEngine(t)
	dev, volume := t.TempDir(), t.TempDir()
	nodes := map[string]uint64{"nvidiactl": unix.Mkdev(195, 255)}
	for i := range 4 {
		nodes[fmt.Sprintf("nvidia%d", i)] = unix.Mkdev(195, uint32(i))
	}
	for name, number := range nodes {
		if err := unix.Mknod(filepath.Join(dev, name), unix.S_IFCHR|0o666, int(number)); err != nil {
			t.Fatalf("mknod %s: %v", name, err)
		}
	}
	if err := os.MkdirAll(filepath.Join(volume, "lib64"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "lib64", "libcuda.so.1"), []byte("made up"), 0o644); err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(t.Output())
	sandbox := t.TempDir()
	return host{engine: engine, volume: volume, EngineRuntime: &EngineRuntime{
		NewClient:     func() (*client.Client, error) { return client.NewClientWithOpts(client.WithAPIVersionNegotiation()) },
		PrepareVolume: func(context.Context) (string, error) { return volume, nil },
		DevDir:        dev, LocksDir: filepath.Join(t.TempDir(), "claims"),
		Sandbox: sandbox, HostSandbox: sandbox, Log: log,
	}}
}

// shell returns a task that runs a script in that image.
func shell(image, script string) task.TaskSpec {
	t := task.TaskSpec{ID: "job.0.1", Framework: "framework",
		Job: "job", Image: image, Argv: []string{"sh", "-c", script}, CPUs: 0.1, MemMiB: 64, Containerizer: job.Docker}
	t.Container.Value = fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano())
	return t
}

func (h host) start(t *testing.T, work task.TaskSpec) task.RunningTask {
	t.Helper()
	r, err := h.Start(t.Context(), work)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() { // for a test that failed in between
		if err := forceRemove(context.Background(), h.engine, containerName(work)); err != nil {
			t.Error(err)
		}
	})
	return r
}

// run runs a task to its end and returns its exit status and output.
func (h host) run(t *testing.T, work task.TaskSpec) (exit task.ExitStatus, stdout, stderr string) {
	t.Helper()
	exit, err := h.start(t, work).Wait(t.Context())
	if err != nil {
		t.Fatalf("wait: %v", err)
	}
	h.nothingLeft(t, work)
	return exit, h.read(t, "stdout"), h.read(t, "stderr")
}

func (h host) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(h.Sandbox, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (h host) nothingLeft(t *testing.T, work task.TaskSpec) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(h.LocksDir, containerName(work))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the claim of container %s is left behind (%v)", containerName(work), err)
	}
	left, err := h.engine.ContainerList(context.Background(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("name", containerName(work))),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range left {
		t.Errorf("container %s (%s) is left behind", c.Names[0], c.State)
	}
}

func TestContainerSeesOnlyItsGPU(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:plain", nil, nil))
	work := shell(img, `
ls /dev | grep nvidia
true </dev/nvidia2
mknod /tmp/nvidia0 c 195 0 && true </tmp/nvidia0
mknod /dev/nvidia2m c 195 2; true </dev/nvidia2m
echo visible=$NVIDIA_VISIBLE_DEVICES
ls -d /usr/local/nvidia
exit 0`)
	work.GPUs, work.DeviceIDs, work.Minors = 1, []string{"GPU-c"}, []int{2}
	_, stdout, stderr := h.run(t, work)
	if want := "nvidia2\nnvidiactl\nvisible=GPU-c\n"; stdout != want {
		t.Errorf("stdout is %q, want %q", stdout, want)
	}
	for _, want := range []string{
		"can't open /dev/nvidia2: No such device or address", // ENXIO: allowed, but there is no driver
		"can't open /tmp/nvidia0: Operation not permitted",   // EPERM: denied for any process's node
		"can't open /dev/nvidia2m: No such device or address",
		"/usr/local/nvidia: No such file or directory", // the image did not request it
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, stderr)
		}
	}
}

func TestContainerWithoutGPU(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:nogpu", nil, nil))
	_, stdout, stderr := h.run(t, shell(img, `ls /dev | grep nvidia; mknod /tmp/n c 195 0; true </tmp/n; echo $NVIDIA_VISIBLE_DEVICES`))
	if stdout != "" && stdout != "void\n" {
		t.Errorf("stdout is %q, want no device and void", stdout)
	}
	if !strings.Contains(stderr, "can't open /tmp/n: Operation not permitted") {
		t.Errorf("stderr lacks the refusal:\n%s", stderr)
	}
}

func TestDriverVolume(t *testing.T) {
	label := map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"}
	tests := []struct {
		name   string
		labels map[string]string
		env    []string
		want   string
	}{
		{"label", label, nil, "libcuda.so.1 readonly /usr/local/nvidia/lib:/usr/local/nvidia/lib64 /usr/local/nvidia/bin"},
		{"env", nil, []string{"NVIDIA_VISIBLE_DEVICES=all"}, "libcuda.so.1 readonly /usr/local/nvidia/lib:/usr/local/nvidia/lib64 /usr/local/nvidia/bin"},
		{"image's own paths stay", label, []string{"PATH=/bin:/mine", "LD_LIBRARY_PATH=/mine"}, "libcuda.so.1 readonly /mine /bin"},
		{"void", label, []string{"NVIDIA_VISIBLE_DEVICES=void"}, "- - - /usr/local/sbin"},
		{"image without requests", nil, nil, "- - - /usr/local/sbin"},
	}
	h := newHost(t)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := h
			rt := *h.EngineRuntime
			rt.Sandbox = t.TempDir()
			rt.HostSandbox = rt.Sandbox
			h.EngineRuntime = &rt
			img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, fmt.Sprintf("mesos-gpu-test:volume%d", i), tt.labels, tt.env))
			work := shell(img, `
set -- $(ls /usr/local/nvidia/lib64 2>/dev/null || echo -)
case "$(touch /usr/local/nvidia/x 2>&1)" in
*Read-only*) set -- $1 readonly;;
*"No such"*) set -- $1 -;;
*) set -- $1 writable;;
esac
echo $1 $2 ${LD_LIBRARY_PATH:--} ${PATH%%:*}`)
			work.GPUs, work.Minors = 1, []int{0}
			_, stdout, stderr := h.run(t, work)
			if got := strings.TrimSpace(stdout); got != tt.want {
				t.Errorf("container saw %q, want %q (stderr %s)", got, tt.want, stderr)
			}
		})
	}
}

func TestContainerSeesItsTask(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:task", nil, nil, testimage.Cmd("sh", "-c", "echo default command")))
	work := shell(img, `
echo $MESOS_TASK_ID $MESOS_CONTAINER_NAME $A
echo from inside >$MESOS_SANDBOX/file
cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/cpu/cpu.shares 2>/dev/null
echo to stderr >&2
exit 3`)
	work.Env = map[string]string{"A": "b c", "NVIDIA_VISIBLE_DEVICES": "all", "MESOS_TASK_ID": "forged"}
	work.CPUs, work.MemMiB = 0.5, 1
	exit, stdout, stderr := h.run(t, work)
	if exit.Code != 3 || exit.Signal != 0 {
		t.Errorf("exit is %v, want status 3", exit)
	}
	if want := "job.0.1 " + containerName(work) + " b c\n33554432\n512\n"; stdout != want {
		t.Errorf("stdout is %q, want %q", stdout, want)
	}
	if stderr != "to stderr\n" {
		t.Errorf("stderr is %q", stderr)
	}
	if got := h.read(t, "file"); got != "from inside\n" {
		t.Errorf("sandbox file holds %q", got)
	}
	work.Argv, work.Container.Value = nil, work.Container.Value+"b"
	if _, stdout, _ := h.run(t, work); !strings.HasSuffix(stdout, "default command\n") {
		t.Errorf("without a command the image's own did not run: %q", stdout)
	}
	work.Entrypoint, work.Argv = []string{"/bin/echo"}, []string{"by", "entrypoint"}
	if _, stdout, _ := h.run(t, work); !strings.HasSuffix(stdout, "by entrypoint\n") {
		t.Errorf("entrypoint was not replaced: %q", stdout)
	}
	// Shells drop variables with such names, other programs see them.
	work.Entrypoint, work.Argv, work.Env = []string{"/bin/env"}, nil, map[string]string{"node.name": "a b"}
	if _, stdout, _ := h.run(t, work); !strings.Contains(stdout, "\nnode.name=a b\n") {
		t.Errorf("variable node.name is not in the environment:\n%s", stdout)
	}
}

// awaitOutput waits until the task has written the text. The engine has no event for
// output, so the file is polled.
func (h host) awaitOutput(t *testing.T, want string) {
	t.Helper()
	awaitText(t, func() string { return h.read(t, "stdout") }, want)
}

func awaitText(t *testing.T, read func() string, want string) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(read(), want) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the output lacks %q: %q", want, read())
		}
	}
}

func TestSignals(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:signals", nil, nil))
	tests := []struct {
		name, script string
		signals      []syscall.Signal
		want         string
	}{
		{"taken to heart", "trap 'echo bye; exit 7' TERM; echo ready-a; while :; do sleep 0.1; done", []syscall.Signal{syscall.SIGTERM}, "exited with status 7"},
		{"ignored, then forced", "trap '' TERM; echo ready-b; while :; do sleep 0.1; done",
			[]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}, "killed by signal 9 (SIGKILL)"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			work := shell(img, tt.script)
			r := h.start(t, work)
			h.awaitOutput(t, "ready-"+string(rune('a'+i)))
			for _, sig := range tt.signals {
				if err := r.Signal(t.Context(), sig); err != nil {
					t.Error(err)
				}
			}
			exit, err := r.Wait(t.Context())
			if err != nil || exit.String() != tt.want {
				t.Errorf("task %s (%v), want %s", exit, err, tt.want)
			}
			if err := r.Signal(t.Context(), syscall.SIGKILL); err != nil {
				t.Errorf("signal to an ended task: %v", err)
			}
			h.nothingLeft(t, work)
		})
	}
}

func TestWaitEndsWithContext(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:giveup", nil, nil))
	t.Run("while it runs", func(t *testing.T) {
		work := shell(img, "echo ready; sleep 1000")
		r := h.start(t, work)
		h.awaitOutput(t, "ready")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("wait returned %v, want it cancelled", err)
		}
		h.nothingLeft(t, work)
	})
	t.Run("during its launch", func(t *testing.T) {
		work := shell(img, "sleep 1000")
		work.GPUs, work.Minors = 1, []int{0}
		work.Image = testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:giveup2", nil, []string{"NVIDIA_VISIBLE_DEVICES=all"}))
		ctx, cancel := context.WithCancel(t.Context())
		h.PrepareVolume = func(context.Context) (string, error) { cancel(); return h.volume, nil }
		if _, err := h.Start(ctx, work); !errors.Is(err, context.Canceled) {
			t.Errorf("start returned %v, want it cancelled", err)
		}
		h.nothingLeft(t, work)
	})
}

func TestStartErrors(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:errors", nil, []string{"NVIDIA_VISIBLE_DEVICES=all"}))
	noDriver := func(context.Context) (string, error) { return "", errors.New("no NVIDIA driver below /") }
	tests := []struct {
		name   string
		change func(*EngineRuntime, *task.TaskSpec)
		want   []string
	}{
		{"no image", func(_ *EngineRuntime, w *task.TaskSpec) { w.Image = "127.0.0.1:1/none/nothing:v1" },
			[]string{"image 127.0.0.1:1/none/nothing:v1 is not on this agent and cannot be pulled", "connection refused", "docker load"}},
		{"no program", func(_ *EngineRuntime, w *task.TaskSpec) { w.Argv = []string{"/no/such/program"} },
			[]string{"start container of image " + img, "/no/such/program"}},
		{"no GPU node", func(_ *EngineRuntime, w *task.TaskSpec) { w.GPUs, w.Minors = 1, []int{9} },
			[]string{"nvidia9", "MESOS_GPU_DEV"}},
		{"no driver", func(d *EngineRuntime, w *task.TaskSpec) { d.PrepareVolume = noDriver; w.GPUs, w.Minors = 1, []int{0} },
			[]string{"image " + img + " needs the GPU driver", "no NVIDIA driver below /"}},
		{"no sandbox", func(d *EngineRuntime, _ *task.TaskSpec) { d.Sandbox = "/no/such/folder" },
			[]string{"open task output", "/no/such/folder"}},
		{"no sandbox at the engine", func(d *EngineRuntime, _ *task.TaskSpec) { d.HostSandbox = "/no/such/folder" },
			[]string{"create container of image " + img, "/no/such/folder"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rt, work := *h.EngineRuntime, shell(img, "true")
			tt.change(&rt, &work)
			_, err := rt.Start(t.Context(), work)
			if err == nil {
				t.Fatal("task started")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q: %v", want, err)
				}
			}
			h.nothingLeft(t, work)
		})
	}
	t.Run("starts without a driver if it has no GPU", func(t *testing.T) {
		h.PrepareVolume = noDriver
		if exit, _, _ := h.run(t, shell(img, "true")); !exit.Succeeded() {
			t.Errorf("task %s", exit)
		}
	})
}

func TestOutOfMemory(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:memory", nil, nil))
	work := shell(img, "sleep 1; exec dd if=/dev/zero of=/dev/null bs=200M count=1")
	work.MemMiB = 32
	exit, _, _ := h.run(t, work)
	want := regexp.MustCompile(`out of memory: the limit is 32 MiB, (the peak was (29|3[0-2])(\.[0-9])? MiB|and it was reached)$`)
	if got := exit.String(); !want.MatchString(got) {
		t.Errorf("task %s, want %s", got, want)
	}
}

// `docker stop` by a user is distinguished from the normal end of a task.
func TestContainerStoppedByHand(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:person", nil, nil))
	work := shell(img, "trap 'exit 3' TERM; echo ready; while :; do sleep 0.1; done")
	work.KillGrace = 10 * time.Second
	r := h.start(t, work)
	h.awaitOutput(t, "ready")
	if err := h.engine.ContainerStop(t.Context(), containerName(work), container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	exit, err := r.Wait(t.Context())
	if want := "exited with status 3: the docker engine sent it signal 15: the container or the engine was stopped by hand"; err != nil || exit.String() != want {
		t.Errorf("task %q (%v), want %q", exit, err, want)
	}
	h.nothingLeft(t, work)
}
