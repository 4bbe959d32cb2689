// Command mesos-gpu schedules GPUs on Apache Mesos: the framework, the executor, the
// agent daemon and the command line in one binary. This package converts flags and
// environment to configurations and runs them. It contains no other logic.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules use time zones, and the system may have no database of them

	"github.com/coreos/go-systemd/v22/daemon"

	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
)

func main() {
	// Let a write to a closed pipe return an error, so that run can kill its job.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runCommandLine(ctx, os.Args[1:], cli.ProcessIO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv})
	stop()
	os.Exit(code)
}

// runCommandLine executes one command line and returns the exit status: 0 on success,
// the task's own for run, 2 for a usage error, 1 for other errors.
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
		return 128 + int(syscall.SIGPIPE) // as a shell reports a closed pipe
	default:
		why := term.EscapeControls(cli.AdviseError(err))
		cli.PrintError(s.Stderr, why)
		if name := command.Name(); command.Parent() == root && (name == "scheduler" || name == "agent" || name == "local") {
			cli.NotifySystemd(daemon.SdNotifyStopping, cli.StatusLine(why)) // other commands may be part of another service
		}
		if cli.IsUsage(err) {
			return 2
		}
		return 1
	}
}
