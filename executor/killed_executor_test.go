package executor

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/docker"
	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// asExecutor runs the test binary as an executor that an agent starts.
const asExecutor = "executor-under-test"

func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != asExecutor {
		os.Exit(m.Run())
	}
	cfg, err := ConfigFromEnv(os.Getenv)
	if err == nil {
		cfg.ReadGrantedGPUs = func() (gpu.DeviceAccess, error) { return gpu.DeviceAccess{Confined: true}, nil }
		cfg.PrepareVolume = func(context.Context) (string, error) { return "", nil }
		err = Run(context.Background(), cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process is an executor process with its own agent.
type process struct {
	*testRig
	cmd *exec.Cmd
}

// startProcess starts an executor whose task sleeps. Executors of one agent share the
// agent's folder.
func startProcess(t *testing.T, agent, image, name string) process {
	t.Helper()
	r := newRig(t)
	r.container = fmt.Sprintf("killed-%d-%s", os.Getpid(), name)
	server := httptest.NewServer(r.agent)
	t.Cleanup(server.Close)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, asExecutor)
	cmd.Env = append(os.Environ(), "MESOS_AGENT_ENDPOINT="+strings.TrimPrefix(server.URL, "http://"), "MESOS_FRAMEWORK_ID=framework",
		"MESOS_EXECUTOR_ID=executor", "MESOS_SANDBOX="+r.cfg.Sandbox, "MESOS_GPU_VOLUMES="+filepath.Join(agent, "volumes"))
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := process{r, cmd}
	t.Cleanup(p.killed)
	r.subscribed()
	r.launch(info(t, task.TaskSpec{Containerizer: job.Docker, Image: image, CPUs: 0.1, MemMiB: 32, Argv: []string{"sleep", "1000"}}))
	r.acknowledge(r.update(mesos.TASK_STARTING))
	r.acknowledge(r.update(mesos.TASK_RUNNING))
	return p
}

// killed sends SIGKILL and waits for the process.
func (p process) killed() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

func (p process) containerName() string { return "mesos-gpu-" + p.testRig.container }

// sweepAgent does the cleanup that the next executor of an agent does at its start.
func sweepAgent(t *testing.T, engine *client.Client, agent string) {
	t.Helper()
	newClient := func() (*client.Client, error) {
		return client.NewClientWithOpts(client.WithHost(engine.DaemonHost()), client.WithAPIVersionNegotiation())
	}
	if err := docker.RemoveOrphans(context.Background(), newClient, filepath.Join(agent, "claims"), newRig(t).cfg.Log); err != nil {
		t.Error(err)
	}
}

// When the next executor of the same agent starts a task, the container and volume of a
// killed executor are removed. Containers of a running executor, of another agent and of
// users are kept.
func TestKilledExecutorLeavesNoContainer(t *testing.T) {
	engine := testneeds.RequireDockerEngine(t)
	testneeds.RequireRoot(t)
	img := testimage.LoadImage(t, engine, testimage.BusyboxArchive(t, "mesos-gpu-executor:killed", nil, nil))
	wet := testimage.LoadImage(t, engine, testimage.BusyboxArchive(t, "mesos-gpu-executor:killed-volume", nil, nil, withVolume))
	agent, other := t.TempDir(), t.TempDir()
	t.Cleanup(func() { sweepAgent(t, engine, agent); sweepAgent(t, engine, other) })
	dead := startProcess(t, agent, wet, "dead")
	alive := startProcess(t, agent, img, "alive")
	elsewhere := startProcess(t, other, img, "elsewhere")
	person := fmt.Sprintf("mesos-gpu-killed-%d-person", os.Getpid())
	createContainer(t, engine, img, person)
	volume := volumeOf(t, engine, dead.containerName())
	dead.killed()
	elsewhere.killed()
	if got := names(t, engine); len(got) != 4 {
		t.Fatalf("containers are %v before the next executor, want 4", got)
	}
	next := startProcess(t, agent, img, "next")
	want := []string{alive.containerName(), elsewhere.containerName(), next.containerName(), person}
	if got := names(t, engine); !slices.Equal(got, want) {
		t.Errorf("containers are %v, want %v", got, want)
	}
	if _, err := engine.VolumeInspect(t.Context(), volume); !errdefs.IsNotFound(err) {
		t.Errorf("its volume %s is left (%v)", volume, err)
	}
	alive.killed()
	next.killed()
	sweepAgent(t, engine, agent)
	sweepAgent(t, engine, other)
	if got := names(t, engine); !slices.Equal(got, []string{person}) {
		t.Errorf("containers are %v, want the person's alone", got)
	}
	for _, dir := range []string{agent, other} {
		if left, err := os.ReadDir(filepath.Join(dir, "claims")); err != nil || len(left) != 0 {
			t.Errorf("%v (%v) is left of the claims", left, err)
		}
	}
}

// withVolume makes the engine give each container a volume.
var withVolume = testimage.ChangeConfig(func(c *v1.Config) { c.Volumes = map[string]struct{}{"/data": {}} })

func volumeOf(t *testing.T, engine *client.Client, container string) string {
	t.Helper()
	c, err := engine.ContainerInspect(t.Context(), container)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Mounts {
		if m.Destination == "/data" {
			return m.Name
		}
	}
	t.Fatalf("%s has mounts %v, want one at /data", container, c.Mounts)
	return ""
}

func createContainer(t *testing.T, engine *client.Client, image, name string) {
	t.Helper()
	if _, err := engine.ContainerCreate(t.Context(), &container.Config{Image: image}, nil, nil, nil, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.ContainerRemove(context.Background(), name, container.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
}

// names returns the sorted names of this test's containers.
func names(t *testing.T, engine *client.Client) []string {
	t.Helper()
	list, err := engine.ContainerList(t.Context(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("name", fmt.Sprintf("mesos-gpu-killed-%d-", os.Getpid()))),
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range list {
		all = append(all, strings.TrimPrefix(c.Names[0], "/"))
	}
	slices.Sort(all)
	return all
}
