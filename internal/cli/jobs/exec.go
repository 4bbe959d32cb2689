package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

func (a *jobCommands) execCommand() *cobra.Command {
	stdin, tty := false, false
	c := &cobra.Command{
		Use: "exec JOB[.NUMBER] [-it] [--] COMMAND...", DisableFlagsInUseLine: true, Short: "Run a command in a running task's container",
		Long: "Run a command in a running task's container, with the task's files, environment and GPUs, and exit with its code.\n" +
			"JOB is enough if it has one task; otherwise give JOB.NUMBER or a task's id. Flags precede COMMAND.",
		Example: "  mesos-gpu exec train -- nvidia-smi\n  mesos-gpu exec train.3 -it python\n  mesos-gpu exec -i train -- tar x < code.tar",
		RunE: func(c *cobra.Command, args []string) error {
			name, argv, err := splitExec(c, args)
			if err != nil || name == "" {
				return err
			}
			return a.execInTask(c.Context(), name, argv, stdin, tty)
		},
		ValidArgsFunction: a.completeRunning,
	}
	f := c.Flags()
	f.SetInterspersed(false) // flags after COMMAND belong to COMMAND
	f.BoolVarP(&stdin, "stdin", "i", false, "pass standard input to the command")
	f.BoolVarP(&tty, "tty", "t", false, "run it on a terminal; with -i all keys reach it, including Ctrl-C")
	return c
}

func (a *jobCommands) shellCommand() *cobra.Command {
	return &cobra.Command{
		Use: "shell JOB[.NUMBER]", Short: "Open a shell, bash or sh, in a running task's container", Args: cli.RequireArgs("JOB[.NUMBER]"),
		RunE:              func(c *cobra.Command, args []string) error { return a.openShell(c.Context(), args[0]) },
		ValidArgsFunction: a.completeRunning,
	}
}

// splitExec splits the arguments into the job and the command. Flags may precede or
// follow the job. It returns an empty name after printing help.
func splitExec(c *cobra.Command, args []string) (name string, argv []string, err error) {
	if len(args) > 0 {
		name, argv = args[0], args[1:]
	}
	if len(argv) > 0 {
		if err := c.Flags().Parse(argv); err != nil {
			return "", nil, c.FlagErrorFunc()(c, err)
		}
		argv = c.Flags().Args()
	}
	if help, _ := c.Flags().GetBool("help"); help {
		return "", nil, c.Help()
	}
	missing := "COMMAND"
	switch {
	case name == "":
		missing = "JOB"
	case len(argv) > 0:
		return name, argv, nil
	}
	return "", nil, &cli.UsageError{Err: fmt.Errorf("%s needs %s: see %s --help", cli.CommandName(c), missing, c.CommandPath())}
}

func (a *jobCommands) execInTask(ctx context.Context, name string, argv []string, stdin, tty bool) error {
	keys := a.terminalInput()
	if tty && keys == nil {
		return &cli.UsageError{Err: errors.New("-t needs a terminal, and standard input is not one: leave -t out")}
	}
	c, err := a.NewClient()
	if err != nil {
		return err
	}
	task, err := resolveTask(ctx, c, name)
	if err != nil {
		return err
	}
	r, t := api.ExecRequest{Argv: argv, TTY: tty}, api.Terminal{Stdout: a.Stdout, Stderr: a.Stderr}
	if stdin {
		t.Stdin = a.Stdin
	}
	return a.runExec(ctx, c, task, r, t, keys)
}

// shellCommandLine starts bash if the container has it, and sh otherwise.
const shellCommandLine = "command -v bash >/dev/null && exec bash; exec sh"

// openShell opens an interactive shell in the task's container.
func (a *jobCommands) openShell(ctx context.Context, name string) error {
	if a.terminalInput() == nil {
		return &cli.UsageError{Err: fmt.Errorf("shell needs a terminal, and standard input is not one: pass commands by mesos-gpu exec -i %s -- sh", name)}
	}
	return a.execInTask(ctx, name, []string{"sh", "-c", shellCommandLine}, true, true)
}

// runExec runs a command on this terminal and restores the terminal's mode afterwards.
func (a *jobCommands) runExec(ctx context.Context, c *client.Client, task job.Task, r api.ExecRequest, t api.Terminal, keys *ttyInput) error {
	ctx, stop := notifyInterrupt(ctx)
	defer stop()
	if r.TTY && keys != nil {
		r.Rows, r.Cols = keys.windowSize()
		resizes, stop := keys.watchResizes(ctx)
		defer stop()
		t.Resize = resizes
		if t.Stdin != nil {
			restore, err := keys.makeRaw()
			if err != nil {
				return err
			}
			defer restore()
		}
	}
	// Mesos's launcher reports on standard error, a Docker engine on standard output.
	failures, output := &launcherOutput{Writer: t.Stderr}, &launcherOutput{Writer: t.Stdout}
	t.Stderr, t.Stdout = failures, output
	code, err := c.Exec(ctx, task.Job, task.Index, r, t)
	if err != nil {
		return a.execFailed(ctx, r.Argv[0], err)
	}
	if code != 0 {
		if status := failures.exitStatus(code); status != code {
			return &cli.ExitStatus{Code: status}
		}
		return &cli.ExitStatus{Code: output.exitStatus(code)}
	}
	return nil
}

// launcherOutput records the start of the output to detect the message of the Mesos
// launcher, or of a container engine, for a program that it cannot start. The
// launcher exits with 1 then, as the program itself might.
type launcherOutput struct {
	io.Writer
	first []byte
}

// maxLauncherLine limits how much output is recorded, in bytes.
const maxLauncherLine = 4 << 10

func (l *launcherOutput) Write(p []byte) (int, error) {
	l.first = append(l.first, p[:min(len(p), maxLauncherLine-len(l.first))]...)
	return l.Writer.Write(p)
}

// exitStatus returns the command's exit status, or 126 or 127 if it was not started.
func (l *launcherOutput) exitStatus(code int) int {
	line := string(l.first)
	switch {
	case code == exitCannotRun && strings.HasPrefix(line, "OCI runtime exec failed") &&
		(strings.Contains(line, "executable file not found") || strings.Contains(line, "no such file or directory")):
		return exitNotFound // some engines return 126 for it
	case code != 1 || !strings.HasPrefix(line, "Failed to execute '"):
		return code
	case strings.Contains(line, "No such file or directory"):
		return exitNotFound
	}
	return exitCannotRun
}

// Exit statuses of commands that cannot be started, as in shells and docker exec.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

// execFailed returns the error of a failed exec. After an interrupt it prints nothing
// and returns the status of SIGINT. For a program that cannot be started it prints
// only the reason, without the details of the API request.
func (a *jobCommands) execFailed(ctx context.Context, program string, err error) error {
	if ctx.Err() != nil {
		return &cli.ExitStatus{Code: 128 + int(syscall.SIGINT)}
	}
	status, why := parseStartError(err)
	if status == 0 {
		return err
	}
	fmt.Fprintf(a.Stderr, "mesos-gpu: exec %q: %s\n", program, why)
	return &cli.ExitStatus{Code: status}
}

// parseStartError returns the exit status and the reason if the container cannot
// start the program, and status 0 for other errors.
func parseStartError(err error) (status int, reason string) {
	var p *api.Problem
	if !errors.As(err, &p) {
		return 0, ""
	}
	switch p.Code {
	case api.CodeProgramNotFound:
		return exitNotFound, "there is no such program in the task's container"
	case api.CodeProgramNotPermitted:
		return exitCannotRun, "it may not be executed"
	case api.CodeProgramWrongFormat:
		return exitCannotRun, "it is not a program for the agent's processor, or it is a script without an interpreter in its first line"
	case api.CodeProgramIsDirectory:
		return exitCannotRun, "it is a directory"
	}
	return 0, ""
}

// resolveTask returns the task that name refers to: the only task of a job,
// JOB.NUMBER, or a task id.
func resolveTask(ctx context.Context, c *client.Client, name string) (t job.Task, err error) {
	view, err := c.GetJob(ctx, name)
	if err == nil {
		if len(view.Tasks) != 1 {
			return t, &cli.UsageError{Err: fmt.Errorf("job %s has %d tasks: name one, such as %s.%d", name, len(view.Tasks), name, firstRunning(view.Tasks))}
		}
		return view.Tasks[0], nil
	}
	unknown := err
	for dot := len(name); isNotFound(err); { // job names and task ids may contain dots
		if dot = strings.LastIndexByte(name[:dot], '.'); dot < 1 {
			return t, unknown
		}
		if view, err = c.GetJob(ctx, name[:dot]); err != nil {
			continue
		}
		i := slices.IndexFunc(view.Tasks, func(t job.Task) bool {
			return t.ID == name || strconv.Itoa(t.Index) == name[dot+1:]
		})
		if i < 0 {
			return t, fmt.Errorf("job %s has no task %q now: mesos-gpu describe %s shows those it has", view.Spec.Name, name, view.Spec.Name)
		}
		return view.Tasks[i], nil
	}
	return t, err
}

// firstRunning returns the index of the first running task, or 0.
func firstRunning(tasks []job.Task) int {
	return max(0, slices.IndexFunc(tasks, func(t job.Task) bool { return t.State == job.Running }))
}

// completeRunning completes the names of running jobs, and of the tasks of jobs with
// several tasks.
func (a *jobCommands) completeRunning(c *cobra.Command, before []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(before) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.ListNames(c.Context(), []string{"RUNNING"}), cobra.ShellCompDirectiveNoFileComp
}
