package executor

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"golang.org/x/sys/unix"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// engineRig is an executor over HTTP that runs its task with the machine's Docker engine,
// on a host with two GPUs, the second of which is granted.
func engineRig(t *testing.T) (*testRig, *client.Client, string) {
	t.Helper()
	testneeds.RequireRoot(t)
	engine := testneeds.RequireDockerEngine(t)
	img := testimage.LoadImage(t, engine, testimage.BusyboxArchive(t, "mesos-gpu-executor:test", nil, nil))
	r := newRig(t)
	dev := t.TempDir()
	for minor := range 2 {
		if err := unix.Mknod(filepath.Join(dev, fmt.Sprintf("nvidia%d", minor)), unix.S_IFCHR|0o666, int(unix.Mkdev(195, uint32(minor)))); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(r.agent)
	t.Cleanup(server.Close)
	r.cfg.Endpoint = strings.TrimPrefix(server.URL, "http://")
	r.cfg.Transport, r.cfg.Runtimes, r.cfg.DevDir, r.cfg.containerLocksDir = nil, nil, dev, t.TempDir()
	r.cfg.ReadGrantedGPUs = func() (gpu.DeviceAccess, error) { return gpu.DeviceAccess{Confined: true, Minors: []int{1}}, nil }
	r.container = ownContainer()
	return r, engine, img
}

func (r *testRig) sandboxFile(name string) string {
	data, err := os.ReadFile(filepath.Join(r.cfg.Sandbox, name))
	if err != nil {
		r.t.Error(err)
	}
	return string(data)
}

// ownContainer returns an ID that no other run on the same engine uses.
func ownContainer() string { return fmt.Sprintf("executor-%d", os.Getpid()) }

func nothingLeft(t *testing.T, engine *client.Client) {
	t.Helper()
	left, err := engine.ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("name", "mesos-gpu-"+ownContainer()))})
	if err != nil || len(left) != 0 {
		t.Errorf("%d containers are left behind (%v)", len(left), err)
	}
}

func TestDockerTask(t *testing.T) {
	r, engine, img := engineRig(t)
	r.run()
	r.subscribed()
	r.launch(info(t, task.TaskSpec{
		Job: "job", Containerizer: job.Docker, Image: img, GPUs: 1, DeviceIDs: []string{"GPU-b"}, CPUs: 1, MemMiB: 64,
		Argv: []string{"sh", "-c", "ls /dev | grep nvidia; true </dev/nvidia1; exit 3"},
	}))
	r.acknowledge(r.update(mesos.TASK_STARTING))
	r.acknowledge(r.update(mesos.TASK_RUNNING))
	s := r.update(mesos.TASK_FAILED)
	nothingLeft(t, engine) // after the final status another task may use the GPU
	if s.GetMessage() != "exited with status 3" || label(s) != "3" {
		t.Errorf("task ended with %q, exit code %q", s.GetMessage(), label(s))
	}
	r.acknowledge(s)
	r.endedWell()
	if got := r.sandboxFile("stdout"); got != "nvidia1\n" {
		t.Errorf("stdout is %q, want the granted GPU alone", got)
	}
	if got := r.sandboxFile("stderr"); !strings.Contains(got, "No such device or address") {
		t.Errorf("stderr is %q, want ENXIO of the granted GPU", got)
	}
}

func TestDockerTaskKilled(t *testing.T) {
	r, engine, img := engineRig(t)
	r.run()
	r.subscribed(mesos.FrameworkInfo_Capability_TASK_KILLING_STATE)
	r.launch(info(t, task.TaskSpec{
		Containerizer: job.Docker, Image: img, GPUs: 1, CPUs: 1, MemMiB: 64,
		Argv: []string{"sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"},
	}))
	r.acknowledge(r.update(mesos.TASK_STARTING))
	r.acknowledge(r.update(mesos.TASK_RUNNING))
	start := time.Now()
	r.kill(300 * time.Millisecond)
	r.acknowledge(r.update(mesos.TASK_KILLING))
	s := r.update(mesos.TASK_KILLED)
	if got := time.Since(start); got < 300*time.Millisecond || s.GetMessage() != "killed by signal 9 (SIGKILL)" {
		t.Errorf("task ended after %s with %q, want SIGKILL after its grace", got, s.GetMessage())
	}
	nothingLeft(t, engine)
	r.acknowledge(s)
	r.endedWell()
}

func TestDockerTaskWithMissingImage(t *testing.T) {
	r, engine, _ := engineRig(t)
	r.run()
	r.subscribed()
	r.launch(info(t, task.TaskSpec{Containerizer: job.Docker, Image: "127.0.0.1:1/nothing:v1", GPUs: 1}))
	r.acknowledge(r.update(mesos.TASK_STARTING))
	s := r.update(mesos.TASK_FAILED)
	if got := s.GetMessage(); !strings.Contains(got, "image 127.0.0.1:1/nothing:v1 is not on this agent") || strings.Contains(got, "\n") {
		t.Errorf("message is %q, want one line that names the image", got)
	}
	nothingLeft(t, engine)
	r.acknowledge(s)
	r.endedWell()
}

// TestStatusLacksSecrets checks that no status of a docker task has the value of a secret.
func TestStatusLacksSecrets(t *testing.T) {
	r, _, img := engineRig(t)
	r.cfg.SecretsDir = t.TempDir()
	put(t, r.cfg.SecretsDir, "web/db/password", "s3cret")
	r.run()
	r.subscribed()
	r.launch(info(t, task.TaskSpec{
		Containerizer: job.Docker, Image: img, GPUs: 1, CPUs: 1, MemMiB: 64, Role: "web", Secrets: map[string]string{"PASSWORD": "db/password"},
		Argv: []string{"sh", "-c", "echo $PASSWORD"},
	}))
	for _, state := range []mesos.TaskState{mesos.TASK_STARTING, mesos.TASK_RUNNING, mesos.TASK_FINISHED} {
		s := r.update(state)
		if text, err := s.Marshal(); err != nil || bytes.Contains(text, []byte("s3cret")) {
			t.Errorf("%s has the secret (%v): %s", state, err, s.Data)
		}
		r.acknowledge(s)
	}
	r.endedWell()
	if got := r.sandboxFile("stdout"); got != "s3cret\n" {
		t.Errorf("stdout is %q, want the secret", got)
	}
}

// TestNestedTaskIsRefused combines the unified runtime with the executor: it must call
// the agent's other API with the container from SUBSCRIBED.
func TestNestedTaskIsRefused(t *testing.T) {
	r := newRig(t)
	asked := make(chan string, 10)
	mux := http.NewServeMux()
	mux.Handle("/slave(1)/api/v1/executor", r.agent)
	mux.HandleFunc("/slave(1)/api/v1", func(w http.ResponseWriter, req *http.Request) {
		asked <- req.Header.Get("Authorization")
		http.Error(w, "no such image", http.StatusBadRequest)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	r.cfg.Endpoint = strings.TrimPrefix(server.URL, "http://")
	r.cfg.Transport, r.cfg.Runtimes, r.cfg.Token = nil, nil, "token"
	r.run()
	r.subscribed()
	r.launch(info(t, task.TaskSpec{Image: "nope", Argv: []string{"true"}}))
	r.acknowledge(r.update(mesos.TASK_STARTING))
	s := r.update(mesos.TASK_FAILED)
	if got := s.GetMessage(); !strings.Contains(got, "launch nested container of image nope") || !strings.Contains(got, "no such image") {
		t.Errorf("message is %q, want the image and the agent's answer", got)
	}
	if got := <-asked; got != "Bearer token" {
		t.Errorf("agent got authorization %q", got)
	}
	r.acknowledge(s)
	r.endedWell()
}

// An executor whose agent is lost permanently ends its task, leaves no container and logs
// what was lost.
func TestDockerTaskEndsWithLostAgent(t *testing.T) {
	r, engine, img := engineRig(t)
	var away atomic.Bool
	r.agent.setAnswer(func(*executor.Call) int {
		if away.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	r.cfg.Checkpoint, r.cfg.RecoveryTimeout = true, 500*time.Millisecond
	r.run()
	r.subscribed()
	r.launch(info(t, task.TaskSpec{Containerizer: job.Docker, Image: img, GPUs: 1, CPUs: 1, MemMiB: 64, Argv: []string{"sleep", "1000"}}))
	r.acknowledge(r.update(mesos.TASK_STARTING))
	r.acknowledge(r.update(mesos.TASK_RUNNING))
	away.Store(true)
	r.agent.hangUp()
	if err := r.ended(); err == nil || !strings.Contains(err.Error(), "is gone for 500ms") {
		t.Errorf("executor ended with %v, want the agent's loss", err)
	}
	nothingLeft(t, engine)
}

// The container's writable layer counts against the disk limit, and a check
// runs in the container's environment.
func TestDockerDiskLimitAndCheck(t *testing.T) {
	r, engine, img := engineRig(t)
	r.cfg.DiskInterval = 100 * time.Millisecond
	r.run()
	r.subscribed()
	work := info(t, task.TaskSpec{
		Job: "job", Containerizer: job.Docker, Image: img, GPUs: 1, CPUs: 1, MemMiB: 64, DiskMiB: 4, Env: map[string]string{"STATUS": "7"},
		Argv: []string{"sh", "-c", "until [ -e /checked ] && [ -e $MESOS_SANDBOX/fill ]; do sleep 0.1; done; dd if=/dev/zero of=/big bs=1M count=20; sleep 1000"},
	})
	work.Check = &mesos.CheckInfo{Type: mesos.CheckInfo_COMMAND, DelaySeconds: ptr(0.0), Command: &mesos.CheckInfo_Command{
		Command: mesos.CommandInfo{Value: ptr("touch /checked; exit $STATUS")}}}
	r.launch(work)
	r.acknowledge(r.update(mesos.TASK_STARTING))
	r.acknowledge(r.update(mesos.TASK_RUNNING))
	s := r.update(mesos.TASK_RUNNING)
	r.acknowledge(s)
	if s.GetReason() != mesos.REASON_TASK_CHECK_STATUS_UPDATED || s.CheckStatus.Command.GetExitCode() != 7 {
		t.Errorf("got %s with check %v", s.GetReason(), s.CheckStatus)
	}
	if err := os.WriteFile(filepath.Join(r.cfg.Sandbox, "fill"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s = r.update(mesos.TASK_FAILED)
	nothingLeft(t, engine)
	if s.GetReason() != mesos.REASON_CONTAINER_LIMITATION_DISK || !strings.HasSuffix(s.GetMessage(), "its limit is 4.0 MiB") {
		t.Errorf("ended for %s with %q", s.GetReason(), s.GetMessage())
	}
	r.acknowledge(s)
	r.endedWell()
}
