package crash

import (
	"context"
	"errors"
	"testing"

	"mesos-gpu/executor"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/reexec"
)

// What makes the test binary a scheduler, and a task.
const (
	schedulerCommand = "scheduler"
	taskCommand      = "task"
)

// TestMain makes the test binary what the tests kill and what agents start.
func TestMain(m *testing.M) {
	reexec.Main(m, reexec.Commands{"executor": reexec.Executor(unconfined), schedulerCommand: runScheduler, taskCommand: runTask})
}

// unconfined is an executor that nothing confines, whatever this machine's
// cgroups say of the test.
func unconfined(cfg *executor.Config) {
	cfg.Granted = func() (gpu.Reach, error) { return gpu.Reach{}, nil }
	cfg.Volume = func(context.Context) (string, error) { return "", errors.New("these tests have no driver") }
}
