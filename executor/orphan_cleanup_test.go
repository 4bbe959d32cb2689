package executor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

// A task with GPUs does not start while an orphan container may hold them.
func TestGPUTaskDoesNotStartNextToOrphan(t *testing.T) {
	r := newRig(t)
	r.cfg.setDefaults()
	r.cfg.DockerHost, r.cfg.NewDockerClient, r.cfg.containerLocksDir = "unix://"+filepath.Join(t.TempDir(), "no.sock"), nil, t.TempDir()
	r.cfg.setDefaults()
	abandoned := filepath.Join(r.cfg.containerLocksDir, "mesos-gpu-abandoned")
	runtime := r.cfg.withOrphanCleanup(unprobedRuntime{r.task})
	r.task.start <- nil
	if _, err := runtime.Start(t.Context(), task.TaskSpec{GPUs: 1}); err != nil {
		t.Errorf("nothing is abandoned: %v", err)
	}
	if err := os.WriteFile(abandoned, []byte("tcp://another:2375"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.task.start <- nil
	if _, err := runtime.Start(t.Context(), task.TaskSpec{GPUs: 1}); err != nil {
		t.Errorf("the container is another engine's: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // otherwise the engine is queried for half a minute
	if err := os.WriteFile(abandoned, []byte(r.cfg.DockerHost), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.Start(ctx, task.TaskSpec{GPUs: 1}); err == nil ||
		!strings.Contains(err.Error(), "its executor is gone: remove container mesos-gpu-abandoned") {
		t.Errorf("task with a GPU started while a container held it: %v", err)
	}
	r.task.start <- nil
	if _, err := runtime.Start(ctx, task.TaskSpec{}); err != nil {
		t.Errorf("task without a GPU: %v", err)
	}
}

// A message of the runtime is sent to the framework with the task's current state.
func TestRuntimeMessagesAreReported(t *testing.T) {
	r := newRig(t).run()
	r.subscribed()
	r.launch(info(t, task.TaskSpec{}))
	r.acknowledge(r.update(mesos.TASK_STARTING))
	r.task.start <- nil
	r.acknowledge(r.update(mesos.TASK_RUNNING))
	r.task.got.ReportMessage("engine is back")
	s := r.update(mesos.TASK_RUNNING)
	if s.GetMessage() != "engine is back" {
		t.Errorf("message is %q", s.GetMessage())
	}
	r.acknowledge(s)
	r.task.exit <- task.ExitStatus{}
	r.acknowledge(r.update(mesos.TASK_FINISHED))
	r.endedWell()
}
