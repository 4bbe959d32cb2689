package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/image"
	"mesos-gpu/executor/task"
	"mesos-gpu/internal/testing/testimage"
)

// inSandbox returns the host with another sandbox.
func (h host) inSandbox(t *testing.T, sandbox string) host {
	t.Helper()
	runtime := *h.EngineRuntime
	runtime.Sandbox, runtime.HostSandbox = sandbox, sandbox
	return host{engine: h.engine, volume: h.volume, EngineRuntime: &runtime}
}

// The effect of a ContainerInfo, as seen in the container and in `docker inspect`.
func TestContainerInfo(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:container", map[string]string{"of": "image", "team": "none"}, nil))
	segment, err := os.CreateTemp("/dev/shm", "mesos-gpu-test-*")
	if err != nil {
		t.Fatal(err)
	}
	segment.Close()
	t.Cleanup(func() { os.Remove(segment.Name()) })
	seesSegment := "if [ -e " + segment.Name() + " ]; then echo seen; else echo unseen; fi"
	const hostNetwork, bridge, none = mesos.ContainerInfo_DockerInfo_HOST, mesos.ContainerInfo_DockerInfo_BRIDGE, mesos.ContainerInfo_DockerInfo_NONE
	tests := []struct {
		name         string
		change       func(c *mesos.ContainerInfo)
		labels       map[string]string
		script, want string
		inspect      func(c container.InspectResponse) (got, want any)
	}{
		{name: "the host's network", change: inNetwork(hostNetwork, 0), script: "ls /sys/class/net | grep -x docker0", want: "docker0"},
		{name: "no network", change: inNetwork(none, 0), script: "ls /sys/class/net", want: "lo"},
		{name: "a bridge, with a host name",
			change: testSpec(inNetwork(bridge, 0), func(c *mesos.ContainerInfo) { c.Hostname = ptr("box") }),
			script: "ls /sys/class/net; hostname", want: "eth0\nlo\nbox"},
		{name: "shared memory", change: parameters("shm-size=16777216"), script: "df -m /dev/shm | awk 'NR==2{print $2}'", want: "16"},
		{name: "shared memory is the task's", change: parameters(), script: "true",
			inspect: func(c container.InspectResponse) (got, want any) { return c.HostConfig.ShmSize, int64(96 << 20) }},
		{name: "ulimits", change: parameters("ulimit=nofile=100:200", "ulimit=core=-1:-1"), script: "ulimit -Sn; ulimit -Hn; ulimit -c", want: "100\n200\nunlimited"},
		{name: "shared memory of the host", change: parameters("ipc=host"), script: seesSegment, want: "seen"},
		{name: "private shared memory", change: parameters("ipc=private"), script: seesSegment, want: "unseen"},
		{name: "shared memory is private unasked", change: parameters(), script: seesSegment, want: "unseen"},
		{name: "labels", change: parameters("label=by=parameter"), labels: map[string]string{"team": "vision", "mesos-gpu.task": "forged"}, script: "true",
			inspect: func(c container.InspectResponse) (got, want any) {
				return fmt.Sprint(c.Config.Labels), fmt.Sprint(map[string]string{"by": "parameter", "of": "image", "team": "vision",
					"mesos-gpu.task": "job.0.1", "mesos-gpu.job": "job", "mesos-gpu.framework": "framework"})
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := h.inSandbox(t, t.TempDir())
			h.AllowHostIPC = true
			work := foreign(shell(img, tt.script), tt.change)
			work.Labels, work.MemMiB = tt.labels, 96 // the engine's default is 64
			r := h.start(t, work).(*runningContainer)
			if tt.inspect != nil {
				c, err := h.engine.ContainerInspect(t.Context(), r.id)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := tt.inspect(c); got != want {
					t.Errorf("engine has %v, want %v", got, want)
				}
			}
			if exit, err := r.Wait(t.Context()); err != nil || !exit.Succeeded() {
				t.Errorf("task %s (%v)", exit, err)
			}
			if got := strings.TrimSpace(h.read(t, "stdout")); got != tt.want {
				t.Errorf("container saw %q, want %q (%s)", got, tt.want, h.read(t, "stderr"))
			}
		})
	}
}

// hostPort returns a free port below the kernel's ephemeral range, so that no
// other process gets it before the engine does.
func hostPort(t *testing.T) uint32 {
	t.Helper()
	for range 100 {
		port := 20000 + rand.IntN(10000)
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			l.Close()
			return uint32(port)
		}
	}
	t.Fatal("no port from 20000 to 29999 is free")
	return 0
}

// A user-defined network by name: the container has an address in it and a port on the
// host.
func TestNamedNetwork(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:user-network", nil, nil))
	name := fmt.Sprintf("mesos-gpu-test-%d", os.Getpid())
	if _, err := h.engine.NetworkCreate(t.Context(), name, network.CreateOptions{Driver: "bridge"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.engine.NetworkRemove(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	made, err := h.engine.NetworkInspect(t.Context(), name, network.InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	subnet := netip.MustParsePrefix(made.IPAM.Config[0].Subnet)
	port := hostPort(t)
	work := foreign(shell(img, `echo ready; while :; do hostname -i | nc -l -p 80; done`), testSpec(
		inNetwork(mesos.ContainerInfo_DockerInfo_USER, port), func(c *mesos.ContainerInfo) { c.NetworkInfos = []mesos.NetworkInfo{{Name: &name}} }))
	work.Ports = []mesos.Value_Range{{Begin: uint64(port), End: uint64(port)}}
	r := h.start(t, work)
	h.awaitOutput(t, "ready")
	_, addresses := r.(task.ContainerDescriber).DescribeContainer()
	if len(addresses) != 1 || !subnet.Contains(netip.MustParseAddr(addresses[0])) {
		t.Errorf("addresses are %v, want one in %s", addresses, subnet)
	}
	awaitText(t, func() string {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return err.Error()
		}
		text, _ := bufio.NewReader(conn).ReadString('\n')
		return text
	}, addresses[0])
	if err := r.Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if _, err := r.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	h.nothingLeft(t, work)
}

// The complete environment of a task. Our variables override the job's, and the image's
// search paths precede the driver volume's.
func TestTaskEnvironment(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:environment", nil, []string{
		"NVIDIA_VISIBLE_DEVICES=all", "PATH=/bin", "OF=image",
	}))
	work := foreign(shell(img, "unset PWD SHLVL; env | sort"), inNetwork(mesos.ContainerInfo_DockerInfo_BRIDGE, 0))
	work.GPUs, work.Minors, work.DeviceIDs = 2, []int{0, 2}, []string{"GPU-a", "GPU-c"}
	work.Index, work.Role = 3, "research"
	work.Env = map[string]string{"OWN": "job's", "MESOS_TASK_ID": "forged", "MESOS_SANDBOX": "forged", "MESOS_CONTAINER_NAME": "forged",
		"MESOS_GPU_JOB": "forged", "MESOS_GPU_TASK_INDEX": "forged", "MESOS_ALLOCATION_ROLE": "forged", "NVIDIA_VISIBLE_DEVICES": "all"}
	_, stdout, _ := h.run(t, work)
	var got []string
	for line := range strings.Lines(stdout) {
		if !strings.HasPrefix(line, "HOSTNAME=") { // the engine sets it to a random value
			got = append(got, strings.TrimSpace(line))
		}
	}
	want := []string{"HOME=/", "LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64", "MESOS_ALLOCATION_ROLE=research",
		"MESOS_CONTAINER_NAME=" + containerName(work), "MESOS_GPU_JOB=job", "MESOS_GPU_TASK_INDEX=3", "MESOS_SANDBOX=/mnt/mesos/sandbox",
		"MESOS_TASK_ID=job.0.1", "NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-c", "OF=image", "OWN=job's", "PATH=/bin"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// MeasureWritten measures the container's writable layer, without the sandbox
// and shared memory.
func TestMeasureWritten(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:written", nil, nil))
	work := shell(img,
		`head -c 3145728 /dev/zero >/tmp/layer; head -c 1048576 /dev/zero >$MESOS_SANDBOX/outside; head -c 1048576 /dev/zero >/dev/shm/x; echo ready; sleep 1000`)
	r := h.start(t, work)
	h.awaitOutput(t, "ready")
	got, err := r.(task.DiskMeasurer).MeasureWritten(t.Context())
	if err != nil || got < 3<<20 || got > 3<<20+1<<19 {
		t.Errorf("it wrote %d bytes (%v), want 3 MiB", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Wait(ctx); err == nil {
		t.Error("the task was given up and ended well")
	}
	if _, err := r.(task.DiskMeasurer).MeasureWritten(t.Context()); err == nil || !strings.Contains(err.Error(), "measure container "+containerName(work)) {
		t.Errorf("of a container that is gone: %v", err)
	}
}

// For an image that does not support the agent's driver no container is created. The
// error contains the requirement and the driver.
func TestIncompatibleImageOnEngine(t *testing.T) {
	h := newHost(t)
	h.ReadHost = func(context.Context) image.HostDriver {
		return image.HostDriver{Driver: "535.104.05", CUDA: "12.2", GPUs: []image.HostGPU{
			{Name: "GPU-old", Arch: "7.0", Brand: "tesla"}, {Name: "GPU-new", Arch: "9.0", Brand: "nvidia"}}}
	}
	tests := []struct {
		name, require, device string
		by                    image.MismatchCause // cause of the rejection; none if it runs
		want                  []string
	}{
		{"cuda", "NVIDIA_REQUIRE_CUDA=cuda>=12.4", "GPU-new", image.DriverMismatch, []string{"cuda>=12.4", "NVIDIA_REQUIRE_CUDA", "CUDA 12.2"}},
		{"driver", "NVIDIA_REQUIRE_DRIVER=driver>=550.54.15", "GPU-new", image.DriverMismatch, []string{"driver>=550.54.15", "driver 535.104.05"}},
		{"architecture", "NVIDIA_REQUIRE_ARCH=arch>=8.0", "GPU-old", image.GPUMismatch, []string{"arch>=8.0", "GPU-old of arch 7.0"}},
		{"architecture of its own GPU", "NVIDIA_REQUIRE_ARCH=arch>=8.0", "GPU-new", "", nil},
		{"brand", "NVIDIA_REQUIRE_BRAND=brand=tesla", "GPU-new", image.GPUMismatch, []string{"brand=tesla", "brand nvidia"}},
		{"brand of its own GPU", "NVIDIA_REQUIRE_BRAND=brand=tesla", "GPU-old", "", nil},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := h.inSandbox(t, t.TempDir())
			img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, fmt.Sprint("mesos-gpu-test:unfit", i), nil, []string{
				"NVIDIA_VISIBLE_DEVICES=all", tt.require,
			}))
			work := shell(img, "exit 0")
			work.GPUs, work.DeviceIDs, work.Minors = 1, []string{tt.device}, []int{0}
			if tt.by == "" {
				if exit, _, _ := h.run(t, work); !exit.Succeeded() {
					t.Errorf("task %s", exit)
				}
				return
			}
			_, err := h.Start(t.Context(), work)
			var unfit *image.IncompatibleError
			if !errors.As(err, &unfit) || unfit.Cause != tt.by {
				t.Fatalf("got %v, want it unfit by the %s", err, tt.by)
			}
			for _, want := range append(tt.want, "image "+img) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q: %v", want, err)
				}
			}
			h.nothingLeft(t, work)
			if _, err := os.Stat(filepath.Join(h.Sandbox, "stdout")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("output was opened for it (%v)", err)
			}
		})
	}
}
