package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

func (a *jobCommands) logsCommand() *cobra.Command {
	var o client.LogOptions
	errs := false
	c := &cobra.Command{
		Use: "logs JOB|TASK", Short: "Print the output of a job's tasks, or of one task", Args: cli.RequireArgs("JOB|TASK"),
		Long: "Print the output of a job's tasks, each line after its task's number if there are several, or of one task.\n" +
			"TASK is its id, also that of an earlier attempt, or JOB.NUMBER.",
		RunE: func(c *cobra.Command, args []string) error {
			if f := c.Flags().Lookup("tail"); f.Changed && o.TailLines < 1 {
				return &cli.UsageError{Err: fmt.Errorf("--tail %d: must be 1 or more lines; omit it for all", o.TailLines)}
			}
			api, err := a.NewClient()
			if err != nil {
				return err
			}
			if errs {
				o.Stream = "stderr"
			}
			return a.printLogs(c.Context(), api, args[0], o)
		},
	}
	f := c.Flags()
	f.BoolVarP(&o.Follow, "follow", "f", false, "follow the output until the task, or all tasks of the job, have ended")
	f.BoolVar(&errs, "stderr", false, "standard error instead of standard output")
	f.IntVarP(&o.TailLines, "tail", "n", 0, "only the last lines of each task; with --follow, also the output that follows")
	return c
}

func (a *jobCommands) printLogs(ctx context.Context, api *client.Client, name string, o client.LogOptions) error {
	view, err := api.GetJob(ctx, name)
	switch {
	case isNotFound(err):
		task, err := resolveTaskID(ctx, api, name)
		if err != nil {
			return err
		}
		if err = a.copyTaskLog(ctx, api, task, o, a.Stdout); cli.IsUnknownTask(err) {
			return fmt.Errorf("there is no job and no task %q: see mesos-gpu ps --all, and mesos-gpu describe JOB for its tasks", name)
		}
		return err
	case err != nil:
		return err
	case o.Follow:
		return a.followJobLogs(ctx, api, &view, o)
	default:
		return a.printJobLogs(ctx, api, &view, o)
	}
}

// isNotFound reports whether the API returned status 404.
func isNotFound(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}

// resolveTaskID returns the task id that name refers to. JOB.NUMBER is the task's
// present attempt; any other name is returned unchanged.
func resolveTaskID(ctx context.Context, api *client.Client, name string) (string, error) {
	dot := strings.LastIndexByte(name, '.')
	if dot < 1 {
		return name, nil
	}
	view, err := api.GetJob(ctx, name[:dot])
	if isNotFound(err) {
		return name, nil
	}
	for i := range view.Tasks {
		if fmt.Sprint(view.Tasks[i].Index) == name[dot+1:] {
			return view.Tasks[i].ID, nil
		}
	}
	return name, err
}

// copyTaskLog copies a task's output to to. It returns no error after an interrupt.
func (a *jobCommands) copyTaskLog(ctx context.Context, api *client.Client, task string, o client.LogOptions, to io.Writer) error {
	o.OnOutputLost = func() { fmt.Fprintln(a.Stderr, outputLostNotice) }
	body, err := api.OpenTaskLog(ctx, task, o)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(to, body); err != nil && ctx.Err() == nil {
		return fmt.Errorf("read log of task %s: %w", task, err)
	}
	return nil
}

// printJobLogs prints the existing output task by task. It returns a not-found error
// only if no task has output, and continues with the other tasks if an agent cannot
// be reached.
func (a *jobCommands) printJobLogs(ctx context.Context, api *client.Client, view *api.JobView, o client.LogOptions) error {
	names := lineLabels{len(view.Tasks), a.CurrentScreen()}
	found, none := false, error(nil)
	var errs []error
	for i := range view.Tasks {
		t := &view.Tasks[i]
		to := names.labelWriter(t.Index, a.Stdout)
		err := errors.Join(a.copyTaskLog(ctx, api, t.ID, o, to), to.flushLine())
		switch {
		case err == nil:
			found = true
		case isNotFound(err):
			none = err
		default:
			errs = append(errs, err)
		}
	}
	if !found && len(errs) == 0 {
		return none
	}
	return errors.Join(errs...)
}

// followJobLogs prints a job's output until the job ends.
func (a *jobCommands) followJobLogs(ctx context.Context, api *client.Client, view *api.JobView, o client.LogOptions) error {
	f := NewFollower(a.App, api, view.Spec.Name)
	f.Outputs, f.tailLines = []streamOutput{{cmp.Or(o.Stream, "stdout"), f.Outputs[0].To}}, o.TailLines
	f.labels = lineLabels{view.Spec.Tasks, a.CurrentScreen()}
	for i := range view.Tasks {
		if t := &view.Tasks[i]; !t.Started.IsZero() && (t.State == job.Killing || t.State == job.Killed) {
			f.startedTasks = append(f.startedTasks, t.ID)
		}
	}
	_, err := f.FollowToEnd(ctx)
	if ctx.Err() != nil {
		return nil // an interrupt is the normal way to stop following
	}
	return err
}

// outputLostNotice is printed if log rotation removed output before it was read.
const outputLostNotice = "mesos-gpu: output is missing here: it was rotated away before it was read"
