package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/job"
)

func ptr[T any](v T) *T { return &v }

// foreign returns a task with a ContainerInfo, as other frameworks launch it.
func foreign(t task.TaskSpec, change func(c *mesos.ContainerInfo)) task.TaskSpec {
	c := &mesos.ContainerInfo{Type: mesos.ContainerInfo_DOCKER.Enum(), Docker: &mesos.ContainerInfo_DockerInfo{Image: t.Image}}
	change(c)
	t.MesosContainer = c
	return t
}

func parameters(list ...string) func(c *mesos.ContainerInfo) {
	return func(c *mesos.ContainerInfo) {
		for _, p := range list {
			key, value, _ := strings.Cut(p, "=")
			c.Docker.Parameters = append(c.Docker.Parameters, mesos.Parameter{Key: key, Value: value})
		}
	}
}

func volumeAt(path string, change func(v *mesos.Volume)) func(c *mesos.ContainerInfo) {
	return func(c *mesos.ContainerInfo) {
		v := mesos.Volume{Mode: mesos.RW.Enum(), ContainerPath: path}
		change(&v)
		c.Volumes = append(c.Volumes, v)
	}
}

func fromSource(s mesos.Volume_Source) func(v *mesos.Volume) {
	return func(v *mesos.Volume) { v.Source = &s }
}

func dockerVolume(name, driver string) mesos.Volume_Source {
	d := &mesos.Volume_Source_DockerVolume{Name: name}
	if driver != "" {
		d.Driver = &driver
	}
	return mesos.Volume_Source{Type: mesos.Volume_Source_DOCKER_VOLUME, DockerVolume: d}
}

func inNetwork(n mesos.ContainerInfo_DockerInfo_Network, hostPort uint32) func(c *mesos.ContainerInfo) {
	return func(c *mesos.ContainerInfo) {
		c.Docker.Network = &n
		if hostPort > 0 {
			c.Docker.PortMappings = []mesos.ContainerInfo_DockerInfo_PortMapping{{HostPort: hostPort, ContainerPort: 80}}
		}
	}
}

func testSpec(steps ...func(c *mesos.ContainerInfo)) func(c *mesos.ContainerInfo) {
	return func(c *mesos.ContainerInfo) {
		for _, s := range steps {
			s(c)
		}
	}
}

func TestUnsupportedContainerInfo(t *testing.T) {
	const host, bridge, user = mesos.ContainerInfo_DockerInfo_HOST, mesos.ContainerInfo_DockerInfo_BRIDGE, mesos.ContainerInfo_DockerInfo_USER
	tests := []struct {
		name, want string
		change     func(c *mesos.ContainerInfo)
	}{
		{"privileged", "docker.privileged would open every GPU", func(c *mesos.ContainerInfo) { c.Docker.Privileged = ptr(true) }},
		{"linux_info", "use docker.parameters", func(c *mesos.ContainerInfo) { c.LinuxInfo = &mesos.LinuxInfo{} }},
		{"both paths relative", "the host's path (data) are both relative", volumeAt("data", func(v *mesos.Volume) { v.HostPath = ptr("data") })},
		{"leaves the sandbox", "leaves the sandbox", volumeAt("/data", func(v *mesos.Volume) { v.HostPath = ptr("../other") })},
		{"colon", "colon", volumeAt("/a:ro", func(v *mesos.Volume) { v.HostPath = ptr("/a") })},
		{"image volume", "containers of type MESOS", volumeAt("/data", func(v *mesos.Volume) { v.Image = &mesos.Image{} })},
		{"secret volume", "source SECRET is not supported", volumeAt("/data", fromSource(mesos.Volume_Source{Type: mesos.Volume_Source_SECRET}))},
		{"two drivers", "volume driver b, and another volume has a", testSpec(volumeAt("/a", fromSource(dockerVolume("x", "a"))), volumeAt("/b", fromSource(dockerVolume("y",
			"b"))))},
		{"hostname of the host", "hostname is set, and the network is the host's", func(c *mesos.ContainerInfo) { c.Hostname = ptr("h") }},
		{"user network without a name", "USER with 0 network_infos", inNetwork(user, 0)},
		{"user network of another", "another container's network", testSpec(inNetwork(user, 0),
			func(c *mesos.ContainerInfo) { c.NetworkInfos = []mesos.NetworkInfo{{Name: ptr("container:x")}} })},
		{"ports of the host", "need a network BRIDGE or USER, this is host", inNetwork(host, 31000)},
		{"port not offered", "host port 80 is not among the task's ports", inNetwork(bridge, 80)},
		{"parameter privileged", "\"privileged\" is not served: served are add-host, ", parameters("privileged=true")},
		{"parameter device", "\"device\" is not served", parameters("device=/dev/nvidia0")},
		{"parameter gpus", "\"gpus\" is not served", parameters("gpus=all")},
		{"parameter runtime", "\"runtime\" is not served", parameters("runtime=nvidia")},
		{"parameter pid", "\"pid\" is not served", parameters("pid=host")},
		{"parameter ipc", "ipc=host: the operator does not allow shared memory with the agent: set MESOS_GPU_ALLOW_HOST_IPC=1", parameters("ipc=host")},
		{"parameter ipc of another", `"ipc=container:x": served are private`, parameters("ipc=container:x")},
		{"capability", "may open every GPU", parameters("cap-add=SYS_ADMIN")},
		{"every capability", "may open every GPU", parameters("cap-add=ALL")},
		{"another's network", "another container's network", parameters("net=container:x")},
		{"own label", "labels of that prefix", parameters("label=mesos-gpu.task=x")},
		{"shared memory of the agent", "volume at /x: host path /dev/shm/of-another leads to /dev/shm, ", volumeAt("/x",
			func(v *mesos.Volume) { v.HostPath = ptr("/dev/shm/of-another") })},
		{"by a link", "leads to /dev/shm, ", volumeAt("/x", func(v *mesos.Volume) { v.HostPath = ptr("link/new") })},
		{"by an option", "volume=/dev//shm/:/x: host path /dev//shm/ leads to /dev/shm, ", parameters("volume=/dev//shm/:/x")},
		{"by what it lies in", "set MESOS_GPU_ALLOW_HOST_IPC=1", parameters("volume=/:/host:ro")},
		{"by the devices' folder", "leads to /dev/shm, ", parameters("volume=/dev:/host/dev")},
		{"message queues", "leads to /dev/mqueue, ", parameters("volume=/dev/mqueue:/x")},
		{"log-driver", `"log-driver=": it names no driver`, parameters("log-driver=")},
		{"shm-size", `"shm-size=much": `, parameters("shm-size=much")},
		{"ulimit", `"ulimit=files": `, parameters("ulimit=files")},
		{"volume", "volume=data:/data/x/../: ", parameters("volume=./data:/data/x/../")},
	}
	sandbox := t.TempDir()
	if err := os.Symlink("/dev/shm", filepath.Join(sandbox, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			work := foreign(shell("debian:12", ""), tt.change)
			work.Ports = []mesos.Value_Range{{Begin: 31000, End: 31009}}
			if tt.name == "volume" {
				tt.want = "it reads HOST:CONTAINER"
			}
			if _, err := newContainerSpec(work, hostInfo{sandbox: sandbox}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestTaskLimitsReachEngine(t *testing.T) {
	tests := []struct {
		name                                    string
		limits                                  map[string]float64
		memory, reservation, period, quota, oom int64
	}{
		{"none", nil, 64 << 20, 0, 0, 0, 0},
		{"beyond the request", map[string]float64{"cpus": 1.5, "mem": 128}, 128 << 20, 64 << 20, 100000, 150000, 1},
		{"infinite", map[string]float64{"cpus": math.Inf(1), "mem": math.Inf(1)}, 0, 64 << 20, 0, 0, 1},
		{"least", map[string]float64{"cpus": 0.0001, "mem": 1}, 32 << 20, 64 << 20, 100000, 1000, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHostConfig(task.TaskSpec{CPUs: 0.5, MemMiB: 64, Limits: tt.limits}, hostInfo{})
			got := []int64{h.Memory, h.MemoryReservation, h.CPUPeriod, h.CPUQuota, min(1, int64(h.OomScoreAdj))}
			if diff := cmp.Diff([]int64{tt.memory, tt.reservation, tt.period, tt.quota, tt.oom}, got); diff != "" {
				t.Errorf("memory, reservation, period, quota, oom (-want +got):\n%s", diff)
			}
		})
	}
	if got := oomScore(task.TaskSpec{MemMiB: 256, Limits: map[string]float64{"mem": 512}}, 1<<30); got != 750 {
		t.Errorf("score of a quarter of the memory is %d, want 750", got)
	}
}

// All supported kinds of volumes, as the container sees them.
func TestVolumesReachContainer(t *testing.T) {
	h := newHost(t).on(t, newPrivateEngine(t)) // the engine has only this test's volumes
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:volumes", nil, nil))
	outside, name := t.TempDir(), fmt.Sprintf("mesos-gpu-test-%d", os.Getpid())
	if err := os.WriteFile(filepath.Join(outside, "there"), []byte("from the host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := h.engine.VolumeCreate(t.Context(), volume.CreateOptions{Name: name}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.engine.VolumeRemove(context.Background(), name, true); err != nil {
			t.Error(err)
		}
	})
	hostPath := func(p string, mode mesos.Volume_Mode) func(v *mesos.Volume) {
		return func(v *mesos.Volume) { v.HostPath, v.Mode = &p, &mode }
	}
	work := foreign(shell(img, `cat /ro/there; touch /ro/x 2>&1 | grep -o Read-only
cat $MESOS_SANDBOX/inside/there
touch /own/made && ls $MESOS_SANDBOX/data
touch /self/made && ls $MESOS_SANDBOX/self
touch /named/made /nameless/made && echo volumes
cat /option/there`), testSpec(
		volumeAt("/ro", hostPath(outside, mesos.RO)), volumeAt("inside", hostPath(outside, mesos.RO)), volumeAt("/own", hostPath("data", mesos.RW)),
		volumeAt("/self", fromSource(mesos.Volume_Source{
			Type:        mesos.Volume_Source_SANDBOX_PATH,
			SandboxPath: &mesos.Volume_Source_SandboxPath{Type: mesos.Volume_Source_SandboxPath_SELF, Path: "self"},
		})),
		volumeAt("/named", fromSource(dockerVolume(name, "local"))), volumeAt("/nameless", func(*mesos.Volume) {}),
		parameters("volume="+outside+":/option:ro")))
	_, stdout, stderr := h.run(t, work)
	if want := "from the host\nRead-only\nfrom the host\nmade\nmade\nvolumes\nfrom the host\n"; stdout != want {
		t.Errorf("container saw %q, want %q (stderr %s)", stdout, want, stderr)
	}
	list, err := h.engine.VolumeList(t.Context(), volume.ListOptions{})
	if err != nil || len(list.Volumes) != 1 || list.Volumes[0].Name != name {
		t.Errorf("volumes are %v (%v), want the named one alone", list.Volumes, err)
	}
}

// The first task with a named volume finds on standard error that it is empty; the next one is not.
func TestNewVolumeIsReported(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:newvolume", nil, nil))
	name := fmt.Sprintf("mesos-gpu-test-new-%d", os.Getpid())
	t.Cleanup(func() {
		if err := h.engine.VolumeRemove(context.Background(), name, true); err != nil {
			t.Error(err)
		}
	})
	work := foreign(shell(img, "echo own >&2"), testSpec(volumeAt("/data", fromSource(dockerVolume(name, "local")))))
	for _, want := range []string{"mesos-gpu: volume " + name + " did not exist on this agent: it is new and empty\nown\n", "own\n"} {
		if _, _, stderr := newHost(t).run(t, work); stderr != want { // with a sandbox of its own
			t.Errorf("stderr is %q, want %q", stderr, want)
		}
	}
}

// Volumes with the host's shared memory are rejected unless the operator allows them.
// Folders next to it are allowed.
func TestSharedMemoryVolumesAreRejected(t *testing.T) {
	for source, f := range map[string]hostInfo{"/dev/shm": {hostIPC: true}, "/": {hostIPC: true}, "/dev/shmoo": {}, "/etc": {}, "name": {}} {
		s, err := newContainerSpec(foreign(shell("debian:12", ""), parameters("volume="+source+":/x:ro")), f)
		if err != nil || !slices.Equal(s.host.Binds, []string{source + ":/x:ro"}) {
			t.Errorf("%s: got %v (%v)", source, s.host.Binds, err)
		}
	}
}

// TestHostUser checks that a container of a user of the machine runs as that user, with the user's groups and no new privileges,
// whatever its parameters say.
func TestHostUser(t *testing.T) {
	work := foreign(shell("debian:12", ""), parameters("volume=/data:/data", "user=0", "group-add=42"))
	work.HostUser = &job.HostUser{UID: 1001, GID: 1002, Groups: []int{1002, 1003}}
	s, err := newContainerSpec(work, hostInfo{})
	if err != nil || s.config.User != "1001:1002" || !slices.Equal(s.host.GroupAdd, []string{"1002", "1003"}) ||
		!slices.Equal(s.host.SecurityOpt, []string{"no-new-privileges"}) {
		t.Errorf("user %q, groups %v, options %v, %v", s.config.User, s.host.GroupAdd, s.host.SecurityOpt, err)
	}
}

// TestOwnerHome checks that a container has its owner's home as HOME only if a volume mounts it at its path, and that values of the
// job count.
func TestOwnerHome(t *testing.T) {
	for _, c := range []struct {
		name    string
		volumes []string
		want    []string
	}{
		{"home", []string{"volume=/home/alice:/home/alice"}, []string{"HOME=/home/alice", "USER=alice"}},
		{"read-only", []string{"volume=/home:/home:ro"}, []string{"HOME=/home/alice", "USER=alice"}},
		{"other path", []string{"volume=/home/alice:/data"}, nil},
		{"part", []string{"volume=/home/alice/data:/home/alice/data"}, nil},
		{"other home", []string{"volume=/scratch:/home/alice"}, nil},
		{"covered", []string{"volume=/home:/home", "volume=/scratch:/home/alice"}, nil},
		{"named volume", []string{"volume=home:/home"}, nil},
		{"own", []string{"volume=/home:/home", "env=HOME=/tmp"}, []string{"HOME=/tmp", "USER=alice"}},
	} {
		work := foreign(shell("debian:12", ""), parameters(c.volumes...))
		work.Account = &task.Account{Name: "alice", Home: "/home/alice/", Shell: "/bin/zsh"}
		s, err := newContainerSpec(work, hostInfo{})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var got []string
		for _, entry := range s.config.Env {
			if name, _, _ := strings.Cut(entry, "="); slices.Contains([]string{"HOME", "USER", "SHELL"}, name) {
				got = append(got, path.Clean(entry))
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// The size of the engine's own log is limited.
func TestEngineLog(t *testing.T) {
	for want, options := range map[string][]string{
		"none map[]":                            nil,
		"journald map[]":                        {"log-driver=journald"},
		"json-file map[max-size:100m]":          {"log-driver=json-file"},
		"json-file map[max-file:3 max-size:1m]": {"log-opt=max-size=1m", "log-opt=max-file=3", "log-driver=json-file"},
	} {
		s, err := newContainerSpec(foreign(shell("debian:12", ""), parameters(options...)), hostInfo{})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(s.host.LogConfig.Type, " ", s.host.LogConfig.Config); got != want {
			t.Errorf("%v: got %s, want %s", options, got, want)
		}
	}
}

// TestEveryDockerOptionHasASetter: every option that jobs may set is applied, and there
// are no other options.
func TestEveryDockerOptionHasASetter(t *testing.T) {
	s := containerSpec{config: &container.Config{}, host: &container.HostConfig{}}
	if diff := cmp.Diff(job.DockerOptions(), slices.Sorted(maps.Keys(s.parameterSetters()))); diff != "" {
		t.Errorf("options that jobs may name and that are served (-want +got):\n%s", diff)
	}
}

// The effect of Docker parameters in the container.
func TestParameters(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:parameters", nil, nil))
	work := foreign(shell(img, `id -u; pwd; echo $A; hostname; ulimit -n; df -m /dev/shm | awk 'NR==2{print $2}'
touch /x 2>&1 | grep -o Read-only; touch /scratch/x && echo scratch; grep -c pinned /etc/hosts; cat /etc/resolv.conf | grep -v '^#'
ls /sys/class/net`), parameters(
		"user=65534", "workdir=/usr", "env=A=a", "env=A=b", "env=MESOS_TASK_ID=forged", "hostname=box", "net=none",
		"ulimit=nofile=128:128", "shm-size=8m", "read-only=true", "tmpfs=/scratch",
		"add-host=pinned:10.1.2.3", "dns=10.9.9.9", "cap-add=IPC_LOCK", "cap-drop=MKNOD", "label=team=vision", "init=false", "pids-limit=50", "memory-swap=-1"))
	r := h.start(t, work).(*runningContainer)
	c, err := h.engine.ContainerInspect(t.Context(), r.id)
	if err != nil {
		t.Fatal(err)
	}
	if c.Config.Labels["team"] != "vision" || c.HostConfig.PidsLimit == nil || *c.HostConfig.PidsLimit != 50 || c.HostConfig.MemorySwap != -1 ||
		len(c.HostConfig.CapAdd) != 1 || len(c.HostConfig.CapDrop) != 1 {
		t.Errorf("engine got labels %v, %+v", c.Config.Labels, c.HostConfig.Resources)
	}
	if exit, err := r.Wait(t.Context()); err != nil || !exit.Succeeded() {
		t.Errorf("task %s (%v)", exit, err)
	}
	if got, want := h.read(t, "stdout"), "65534\n/usr\nb\nbox\n128\n8\nRead-only\nscratch\n1\nnameserver 10.9.9.9\nlo\n"; got != want {
		t.Errorf("container saw %q, want %q (%s)", got, want, h.read(t, "stderr"))
	}
}

// A task of another user that starts in the sandbox can read the files there.
func TestUserStartsInSandbox(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:insandbox", nil, nil))
	box := t.TempDir()
	if err := os.Chmod(box, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(box, "input"), []byte("read\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h = h.inSandbox(t, box)
	exit, out, errs := h.run(t, foreign(shell(img, "id -u; pwd; cat input"), parameters("user=65534", "workdir=/mnt/mesos/sandbox")))
	if want := "65534\n/mnt/mesos/sandbox\nread\n"; out != want || !exit.Succeeded() {
		t.Errorf("task %s prints %q, want %q (%s)", exit, out, want, errs)
	}
}

// A host port is forwarded to the container, which reports its own address.
func TestBridgeNetwork(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:bridge", nil, nil))
	port := hostPort(t)
	work := foreign(shell(img, `echo ready; while :; do echo hello | nc -l -p 80; done`), inNetwork(mesos.ContainerInfo_DockerInfo_BRIDGE, port))
	work.Ports = []mesos.Value_Range{{Begin: uint64(port), End: uint64(port)}}
	work.Env = map[string]string{"PASSWORD": "s3cret"}
	r := h.start(t, work)
	h.awaitOutput(t, "ready")
	data, addresses := r.(task.ContainerDescriber).DescribeContainer()
	if strings.Contains(string(data), "s3cret") {
		t.Errorf("the description has the value of a variable, which may be a secret: %s", data)
	}
	if len(addresses) != 1 || !strings.HasPrefix(string(data), "[{") || !strings.Contains(string(data), addresses[0]) {
		t.Errorf("container is described by %d bytes and addresses %v", len(data), addresses)
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
	}, "hello")
	if err := r.Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if _, err := r.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	h.nothingLeft(t, work)
}

// ExecProbe runs a command in the task's container and returns its exit status.
func TestExecProbeReturnsExitStatus(t *testing.T) {
	h := newHost(t)
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:exec", nil, nil))
	r := h.start(t, shell(img, "sleep 1000")).(*runningContainer)
	if got := r.ProbeAddress(); got != "127.0.0.1" {
		t.Errorf("address on the host's network is %q", got)
	}
	code, err := r.ExecProbe(t.Context(), []string{"sh", "-c", "exit $CODE"}, map[string]string{"CODE": "4"})
	if code != 4 || err != nil {
		t.Errorf("got status %d (%v), want 4", code, err)
	}
	if code, err := r.ExecProbe(t.Context(), []string{"sh", "-c", "exec >&- 2>&-; sleep 0.3; exit 5"}, nil); code != 5 || err != nil {
		t.Errorf("a command that closes its output first: status %d (%v), want 5", code, err)
	}
	if code, err := r.ExecProbe(t.Context(), []string{"/no/such/program"}, nil); code == 0 && err == nil || errors.Is(err, task.ErrNotReached) {
		t.Errorf("a program that is not there: status %d (%v)", code, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err := r.ExecProbe(ctx, []string{"sleep", "1000"}, nil); err == nil {
		t.Error("a command outlasted its time")
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := r.Wait(ctx); err == nil {
		t.Error("the task was given up and ended well")
	}
	if _, err := r.ExecProbe(t.Context(), []string{"true"}, nil); !errors.Is(err, task.ErrNotReached) {
		t.Errorf("a task that is gone: %v, want that it was not probed", err)
	}
	none, err := client.NewClientWithOpts(client.WithHost("unix://"+filepath.Join(t.TempDir(), "none.sock")), client.WithVersion("1.41"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (&runningContainer{engine: none, id: "c"}).ExecProbe(t.Context(), []string{"true"}, nil); !errors.Is(err, task.ErrNotReached) {
		t.Errorf("an engine that is away: %v, want that the probe did not reach the task", err)
	}
}

// A secret is mounted read-only; a relative path is in the sandbox.
func TestSecretMounts(t *testing.T) {
	h := newHostConfig(task.TaskSpec{SecretMounts: []task.HostMount{
		{Source: "/secrets/web/db", Target: "/run/db", ReadOnly: true},
		{Source: "/secrets/web/key", Target: "keys/web", ReadOnly: true},
	}}, hostInfo{sandbox: "/sandbox"})
	var got []string
	for _, m := range h.Mounts {
		got = append(got, fmt.Sprintf("%s %s %t", m.Source, m.Target, m.ReadOnly))
	}
	if diff := cmp.Diff([]string{"/sandbox /mnt/mesos/sandbox false", "/secrets/web/db /run/db true", "/secrets/web/key /mnt/mesos/sandbox/keys/web true"},
		got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
