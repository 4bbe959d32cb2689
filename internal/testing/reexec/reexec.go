// Package reexec lets a test binary act as the programs that the test or an
// agent starts, such as a container's first process or an executor.
package reexec

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"

	"mesos-gpu/executor"
	"mesos-gpu/executor/task"
	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/isolator"
	"mesos-gpu/isolator/socket"
	"mesos-gpu/volumemgr"
)

// CommandTable maps the binary's first argument to a command. Commands receive
// the remaining arguments.
type CommandTable map[string]func(args []string) error

// Main is the body of TestMain. It runs the command that the first argument
// names, a container's first process, or the tests and then the cleanups. Commands
// exit with syscall.Exit, because os.Exit of a race-instrumented binary waits a second.
func Main(m *testing.M, commands CommandTable, cleanups ...func() error) {
	var run func([]string) error
	if len(os.Args) > 1 {
		if run = commands[os.Args[1]]; os.Args[1] == container.InitCommand {
			run = container.Init
		}
	}
	if run == nil {
		code := m.Run()
		for _, cleanup := range cleanups {
			if err := cleanup(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
		os.Exit(code)
	}
	if err := run(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

// ExecutorCommand returns the executor of cmd/mesos-gpu as a command, which asks
// the daemon only for the limits of shares. change may be nil.
func ExecutorCommand(change func(*executor.ExecutorConfig)) func([]string) error {
	return func([]string) error {
		cfg, err := executor.ConfigFromEnv(os.Getenv)
		if err != nil {
			return err
		}
		cfg.ReadGrantedGPUs = isolator.DetectDeviceAccess
		cfg.ReadShareLimits = func(ctx context.Context, container string) (executor.ShareEnforcement, error) {
			said, err := socket.NewDaemonClient(cfg.HealthSocket).ContainerShare(ctx, container)
			return executor.ShareEnforcement{Limit: task.ShareLimit{Env: said.Environment}, Warning: said.Warning}, err
		}
		cfg.PrepareVolume = func(ctx context.Context) (string, error) {
			volume, err := volumemgr.EnsureVolume(ctx, volumemgr.DriverSearch{Root: cfg.DriverRoot}, volumemgr.Store{Dir: cfg.VolumesDir})
			return volume.Path, err
		}
		if change != nil {
			change(&cfg)
		}
		return executor.Run(context.Background(), cfg)
	}
}
