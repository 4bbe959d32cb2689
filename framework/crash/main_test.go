package crash

import (
	"context"
	"errors"
	"testing"

	"mesos-gpu/executor"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/reexec"
)

// Commands of the test binary: a scheduler, and a task.
const (
	schedulerCommand = "scheduler"
	taskCommand      = "task"
)

// TestMain makes the test binary act as the scheduler, the executor and the tasks.
func TestMain(m *testing.M) {
	reexec.Main(m, reexec.CommandTable{"executor": reexec.ExecutorCommand(disableConfinement), schedulerCommand: runScheduler, taskCommand: runTask})
}

// disableConfinement disables the executor's restrictions, independent of the cgroups in which the
// test runs.
func disableConfinement(cfg *executor.ExecutorConfig) {
	cfg.ReadGrantedGPUs = func() (gpu.DeviceAccess, error) { return gpu.DeviceAccess{}, nil }
	cfg.PrepareVolume = func(context.Context) (string, error) { return "", errors.New("these tests have no driver") }
}
