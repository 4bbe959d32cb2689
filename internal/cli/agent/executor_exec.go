package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	xterm "golang.org/x/term"

	"mesos-gpu/executor"
	"mesos-gpu/executor/docker"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
)

// executorExecCommand runs a command in a Docker container. The scheduler starts it on
// the agent, alongside the executor of the task.
func (a *agentCommands) executorExecCommand() *cobra.Command {
	var tty, stdin bool
	c := &cobra.Command{
		Use: "exec -- COMMAND [ARG...]", Short: "Run a command in this executor's task; the scheduler starts this", Args: cli.AtLeast("a command"), Hidden: true,
		RunE: func(c *cobra.Command, argv []string) error {
			cfg, err := executor.ConfigFromEnv(a.Getenv)
			if err != nil {
				return err
			}
			if cfg.ContainerID == "" {
				return errors.New("executor exec: MESOS_DIRECTORY names no container: an agent starts this, people use mesos-gpu exec")
			}
			s := docker.ExecSession{Container: cfg.ContainerID, Argv: argv, TTY: tty, Stdout: a.Stdout, Stderr: a.Stderr}
			if stdin {
				s.Stdin = a.Stdin
			}
			err = runSession(c.Context(), cfg, s)
			if cli.AsExitStatus(err, new(*cli.ExitStatus)) || err == nil {
				return err
			}
			// As in docker exec, a failure of exec itself has a status of its own.
			fmt.Fprintf(a.Stderr, "mesos-gpu: %s\n", term.EscapeControls(err.Error()))
			return &cli.ExitStatus{Code: exitExecFault}
		},
	}
	c.Flags().BoolVar(&tty, "tty", false, "run it on a terminal of the same size")
	c.Flags().BoolVar(&stdin, "stdin", false, "pass standard input")
	return c
}

// exitExecFault is the exit status if exec itself fails.
const exitExecFault = 125

func runSession(ctx context.Context, cfg executor.ExecutorConfig, s docker.ExecSession) error {
	engine, err := cfg.NewDockerClient()
	if err != nil {
		return fmt.Errorf("docker engine: %w", err)
	}
	defer engine.Close()
	if s.TTY {
		// Pass all input to the command: the terminal of the engine echoes it.
		before, err := xterm.MakeRaw(int(os.Stdin.Fd()))
		if err != nil {
			return fmt.Errorf("pass the terminal on: %w", err)
		}
		defer xterm.Restore(int(os.Stdin.Fd()), before)
		sizes, stop := windowSizes(os.Stdin)
		defer stop()
		s.Sizes = sizes
	}
	code, err := s.Run(ctx, engine)
	if err != nil {
		return err
	}
	return &cli.ExitStatus{Code: code}
}

// windowSizes sends the size of this process's terminal immediately and after each
// change, until stop is called. After several quick changes it sends the latest size.
func windowSizes(tty *os.File) (sizes <-chan docker.TerminalSize, stop func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	out, ended := make(chan docker.TerminalSize), make(chan struct{})
	go func() {
		for {
			size, err := unix.IoctlGetWinsize(int(tty.Fd()), unix.TIOCGWINSZ)
			if err == nil && size.Row > 0 && size.Col > 0 {
				select {
				case out <- docker.TerminalSize{Rows: uint(size.Row), Cols: uint(size.Col)}:
				case <-ended:
					return
				}
			}
			select {
			case <-changes:
			case <-ended:
				return
			}
		}
	}()
	return out, func() {
		signal.Stop(changes)
		close(ended)
	}
}
