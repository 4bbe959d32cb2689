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

// A task with devices does not start beside a container that may hold them.
func TestNotBesideAnAbandonedContainer(t *testing.T) {
	r := newRig(t)
	r.cfg.setDefaults()
	r.cfg.DockerHost, r.cfg.Docker, r.cfg.ClaimsDir = "unix://"+filepath.Join(t.TempDir(), "no.sock"), nil, t.TempDir()
	r.cfg.setDefaults()
	abandoned := filepath.Join(r.cfg.ClaimsDir, "mesos-gpu-abandoned")
	runtime := r.cfg.alone(deaf{r.task})
	r.task.start <- nil
	if _, err := runtime.Start(t.Context(), task.Task{GPUs: 1}); err != nil {
		t.Errorf("nothing is abandoned: %v", err)
	}
	if err := os.WriteFile(abandoned, []byte("tcp://another:2375"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.task.start <- nil
	if _, err := runtime.Start(t.Context(), task.Task{GPUs: 1}); err != nil {
		t.Errorf("the container is another engine's: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // else the engine is asked for half a minute
	if err := os.WriteFile(abandoned, []byte(r.cfg.DockerHost), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.Start(ctx, task.Task{GPUs: 1}); err == nil || !strings.Contains(err.Error(), "its executor is gone: remove container mesos-gpu-abandoned") {
		t.Errorf("task with a GPU started beside a container: %v", err)
	}
	r.task.start <- nil
	if _, err := runtime.Start(ctx, task.Task{}); err != nil {
		t.Errorf("task without a GPU: %v", err)
	}
}

// What the runtime says reaches the framework in the task's present state.
func TestRuntimeSays(t *testing.T) {
	r := newRig(t).run()
	r.subscribed()
	r.launch(info(t, task.Task{}))
	r.acknowledge(r.update(mesos.TASK_STARTING))
	r.task.start <- nil
	r.acknowledge(r.update(mesos.TASK_RUNNING))
	r.task.got.Say("engine is back")
	s := r.update(mesos.TASK_RUNNING)
	if s.GetMessage() != "engine is back" {
		t.Errorf("message is %q", s.GetMessage())
	}
	r.acknowledge(s)
	r.task.exit <- task.Exit{}
	r.acknowledge(r.update(mesos.TASK_FINISHED))
	r.endedWell()
}
