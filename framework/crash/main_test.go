package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"mesos-gpu/executor"
	"mesos-gpu/internal/local/agent/container"
)

// What makes the test binary a scheduler, and a task.
const (
	schedulerCommand = "scheduler"
	taskCommand      = "task"
)

// TestMain makes the test binary what the tests kill and what agents start. As
// such it leaves by syscall.Exit: os.Exit of a race-instrumented binary waits
// a second.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	var err error
	switch os.Args[1] {
	case container.InitCommand:
		err = container.Init(os.Args[2:])
	case "executor":
		err = runExecutor()
	case schedulerCommand:
		err = runScheduler(os.Args[2])
	case taskCommand:
		err = runTask(os.Args[2:])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

// runExecutor is cmd/mesos-gpu's executor, but that nothing confines it,
// whatever this machine's cgroups say of the test.
func runExecutor() error {
	cfg, err := executor.ConfigFromEnv(os.Getenv)
	if err != nil {
		return err
	}
	cfg.Granted = func() ([]int, bool, error) { return nil, false, nil }
	cfg.Volume = func(context.Context) (string, error) { return "", errors.New("these tests have no driver") }
	return executor.Run(context.Background(), cfg)
}
