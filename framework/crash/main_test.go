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
	reexec.Main(m, reexec.CommandTable{"executor": reexec.ExecutorCommand(unconfined), schedulerCommand: runScheduler, taskCommand: runTask})
}

// unconfined is an executor that nothing confines, whatever this machine's
// cgroups say of the test.
func unconfined(cfg *executor.ExecutorConfig) {
	cfg.ReadGrantedGPUs = func() (gpu.DeviceAccess, error) { return gpu.DeviceAccess{}, nil }
	cfg.PrepareVolume = func(context.Context) (string, error) { return "", errors.New("these tests have no driver") }
}
