// Command mesos-gpu schedules GPUs on Apache Mesos: the framework, the
// executor, the agent-side daemon and the command line in one binary. This
// package turns flags and environment into configurations and runs them;
// it decides nothing else.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules name time zones, also where the system knows none

	"github.com/coreos/go-systemd/v22/daemon"
)

// version is set at link time.
var version = "unknown"

func main() {
	// A closed pipe shall be an error of the write, so that run can end its job.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runCommandLine(ctx, os.Args[1:], processIO{os.Stdin, os.Stdout, os.Stderr, os.Getenv})
	stop()
	os.Exit(code)
}

// runCommandLine executes one command line and returns the exit status: 0, the task's
// own for run, 2 for a usage mistake, 1 for all else.
func runCommandLine(ctx context.Context, args []string, s processIO) int {
	root := newRoot(s)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	var status *exitStatus
	switch {
	case err == nil:
		return 0
	case asExitStatus(err, &status):
		return status.code
	case errors.Is(err, syscall.EPIPE):
		return 128 + int(syscall.SIGPIPE) // as a shell reports it; nobody reads more
	default:
		why := escapeControls(adviseError(err))
		printError(s.stderr, why)
		if name := command.Name(); command.Parent() == root && (name == "scheduler" || name == "agent") {
			notifySystemd(daemon.SdNotifyStopping, statusLine(why)) // others may be part of somebody's service
		}
		if isUsage(err) {
			return 2
		}
		return 1
	}
}
