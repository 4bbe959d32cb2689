// Package reexec makes a test binary what it starts itself, or has an agent
// start: a container's first process, an executor, whatever its test names.
// It decides nothing about what those do.
package reexec

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

// CommandTable are what the binary can be, by its first argument. They get the
// arguments after that.
type CommandTable map[string]func(args []string) error

// Main is for TestMain: it is the command that the first argument names, or
// a container's first process, or else runs the tests. Commands leave by
// syscall.Exit: os.Exit of a race-instrumented binary waits a second.
func Main(m *testing.M, commands CommandTable) {
	var run func([]string) error
	if len(os.Args) > 1 {
		if run = commands[os.Args[1]]; os.Args[1] == container.InitCommand {
			run = container.Init
		}
	}
	if run == nil {
		os.Exit(m.Run())
	}
	if err := run(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

// ExecutorCommand is cmd/mesos-gpu's executor, as a command; change may be nil.
func ExecutorCommand(change func(*executor.ExecutorConfig)) func([]string) error {
	return func([]string) error {
		cfg, err := executor.ConfigFromEnv(os.Getenv)
		if err != nil {
			return err
		}
		cfg.ReadGrantedGPUs = isolator.DetectDeviceAccess
		cfg.PrepareVolume = func(ctx context.Context) (string, error) {
			volume, err := volumemgr.EnsureVolume(ctx, cfg.DriverRoot, cfg.VolumesDir)
			return volume.Path, err
		}
		if change != nil {
			change(&cfg)
		}
		return executor.Run(context.Background(), cfg)
	}
}
