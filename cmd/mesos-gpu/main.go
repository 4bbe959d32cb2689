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

	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
)

// version is set at link time.
var version = "unknown"

func main() {
	// A closed pipe shall be an error of the write, so that run can end its job.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runCommandLine(ctx, os.Args[1:], cli.ProcessIO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv})
	stop()
	os.Exit(code)
}

// runCommandLine executes one command line and returns the exit status: 0, the task's
// own for run, 2 for a usage mistake, 1 for all else.
func runCommandLine(ctx context.Context, args []string, s cli.ProcessIO) int {
	root := newRoot(s)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	var status *cli.ExitStatus
	switch {
	case err == nil:
		return 0
	case cli.AsExitStatus(err, &status):
		return status.Code
	case errors.Is(err, syscall.EPIPE):
		return 128 + int(syscall.SIGPIPE) // as a shell reports it; the pipe is closed
	default:
		why := term.EscapeControls(cli.AdviseError(err))
		cli.PrintError(s.Stderr, why)
		if name := command.Name(); command.Parent() == root && (name == "scheduler" || name == "agent") {
			cli.NotifySystemd(daemon.SdNotifyStopping, cli.StatusLine(why)) // other commands may be part of another service
		}
		if cli.IsUsage(err) {
			return 2
		}
		return 1
	}
}
