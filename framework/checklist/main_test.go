package checklist

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"

	"mesos-gpu/executor"
	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/isolator"
	"mesos-gpu/volumemgr"
)

// TestMain makes the test binary what agents start: a container's first
// process, or the executor. As such it leaves by syscall.Exit: os.Exit of a
// race-instrumented binary waits a second.
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
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

func runExecutor() error {
	cfg, err := executor.ConfigFromEnv(os.Getenv)
	if err != nil {
		return err
	}
	cfg.Granted = isolator.Granted
	cfg.Volume = func(ctx context.Context) (string, error) {
		volume, err := volumemgr.Ensure(ctx, cfg.DriverRoot, cfg.VolumesDir)
		return volume.Path, err
	}
	return executor.Run(context.Background(), cfg)
}
