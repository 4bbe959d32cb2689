package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/job"
)

func (a *app) execCommand() *cobra.Command {
	stdin, tty := false, false
	c := &cobra.Command{
		Use: "exec JOB[.NUMBER] [-it] [--] COMMAND...", DisableFlagsInUseLine: true, Short: "Run a command in a running task's container",
		Long: "Run a command in a running task's container, with the task's files, environment and GPUs, and exit with its code.\n" +
			"JOB alone will do where it has one task; else JOB.NUMBER or a task's id says which. Flags stand before COMMAND.",
		Example: "  mesos-gpu exec train -- nvidia-smi\n  mesos-gpu exec train.3 -it python\n  mesos-gpu exec -i train -- tar x < code.tar",
		RunE: func(c *cobra.Command, args []string) error {
			name, argv, err := splitExec(c, args)
			if err != nil || name == "" {
				return err
			}
			return a.exec(c.Context(), name, argv, stdin, tty)
		},
		ValidArgsFunction: a.runningTasks,
	}
	f := c.Flags()
	f.SetInterspersed(false) // what follows COMMAND is its own
	f.BoolVarP(&stdin, "stdin", "i", false, "pass standard input on")
	f.BoolVarP(&tty, "tty", "t", false, "run it on a terminal; with -i its keys are passed on, Ctrl-C too")
	return c
}

func (a *app) shellCommand() *cobra.Command {
	return &cobra.Command{
		Use: "shell JOB[.NUMBER]", Short: "Open a shell in a running task's container: bash, else sh", Args: args("JOB[.NUMBER]"),
		RunE:              func(c *cobra.Command, args []string) error { return a.shell(c.Context(), args[0]) },
		ValidArgsFunction: a.runningTasks,
	}
}

// splitExec takes the job and the command out of the arguments. Flags may stand
// behind the job as well as before it. There is no job where help was asked for.
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
	return "", nil, &usageError{fmt.Errorf("%s needs %s: see %s --help", c.CommandPath(), missing, c.CommandPath())}
}

func (a *app) exec(ctx context.Context, name string, argv []string, stdin, tty bool) error {
	keys := a.keyboard()
	if tty && keys == nil {
		return &usageError{errors.New("-t needs a terminal, and standard input is none: leave -t out")}
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	task, err := liveTask(ctx, c, name)
	if err != nil {
		return err
	}
	r, t := api.ExecRequest{Argv: argv, TTY: tty}, api.Terminal{Stdout: a.out, Stderr: a.err}
	if stdin {
		t.Stdin = a.in
	}
	return a.execOn(ctx, c, task, r, t, keys)
}

// anyShell becomes bash, or stays sh where there is none.
const anyShell = "command -v bash >/dev/null && exec bash; exec sh"

// shell runs the best shell that the task's container has.
func (a *app) shell(ctx context.Context, name string) error {
	if a.keyboard() == nil {
		return &usageError{fmt.Errorf("shell needs a terminal, and standard input is none: pass commands on by mesos-gpu exec -i %s -- sh", name)}
	}
	return a.exec(ctx, name, []string{"sh", "-c", anyShell}, true, true)
}

// execOn runs a command on this terminal, which is as it was afterwards.
func (a *app) execOn(ctx context.Context, c *client.Client, task job.Task, r api.ExecRequest, t api.Terminal, keys *keyboard) error {
	ctx, stop := untilInterrupt(ctx)
	defer stop()
	if r.TTY && keys != nil {
		r.Rows, r.Cols = keys.size()
		resizes, stop := keys.resizes(ctx)
		defer stop()
		t.Resize = resizes
		if t.Stdin != nil {
			restore, err := keys.raw()
			if err != nil {
				return err
			}
			defer restore()
		}
	}
	code, err := c.Exec(ctx, task.Job, task.Index, r, t)
	if err != nil {
		return execFailed(ctx, err)
	}
	if code != 0 {
		return &exitStatus{code}
	}
	return nil
}

// execFailed says nothing where somebody has interrupted it: the code does.
func execFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &exitStatus{128 + int(syscall.SIGINT)}
	}
	return err
}

// liveTask is the task that a name means: a job's, where it has one, JOB.NUMBER,
// or an id.
func liveTask(ctx context.Context, c *client.Client, name string) (t job.Task, err error) {
	view, err := c.Job(ctx, name)
	if err == nil {
		if len(view.Tasks) != 1 {
			return t, &usageError{fmt.Errorf("job %s has %d tasks: say which, such as %s.%d", name, len(view.Tasks), name, firstRunning(view.Tasks))}
		}
		return view.Tasks[0], nil
	}
	unknown := err
	for dot := len(name); missing(err); { // ids and names of jobs have dots
		if dot = strings.LastIndexByte(name[:dot], '.'); dot < 1 {
			return t, unknown
		}
		if view, err = c.Job(ctx, name[:dot]); err != nil {
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

// firstRunning is the index of one that a command could run in.
func firstRunning(tasks []job.Task) int {
	return max(0, slices.IndexFunc(tasks, func(t job.Task) bool { return t.State == job.Running }))
}

// runningTasks completes the names of jobs that run, and of tasks where a job
// has several.
func (a *app) runningTasks(c *cobra.Command, before []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(before) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.names(c.Context(), []string{"RUNNING"}), cobra.ShellCompDirectiveNoFileComp
}

func runningNames(j *api.JobView) (names []string) {
	for _, t := range j.Tasks {
		switch {
		case t.State != job.Running:
		case len(j.Tasks) == 1:
			names = append(names, j.Spec.Name)
		default:
			names = append(names, fmt.Sprintf("%s.%d", j.Spec.Name, t.Index))
		}
	}
	return names
}
