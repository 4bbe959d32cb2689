package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

// Conditions to wait for, the values of --for.
const (
	waitForEnd     = "ended"
	waitForRunning = "running"
)

func (a *jobCommands) waitCommand() *cobra.Command {
	what, limit := waitForEnd, time.Duration(0)
	c := &cobra.Command{
		Use: "wait JOB...", Short: "Wait until jobs have ended, and exit with the code of the first that failed", Args: cli.AtLeast("JOB"),
		Long: "Wait until all of the jobs have ended, and print their final states. The exit status is the code of the first of them that failed, 0 if none did.\n" +
			"With --for running it is 0 as soon as all tasks of all jobs run or have finished. After --timeout it is 124.",
		RunE: func(c *cobra.Command, names []string) error {
			if what != waitForEnd && what != waitForRunning {
				return &cli.UsageError{Err: fmt.Errorf("--for %s: use %s or %s", what, waitForEnd, waitForRunning)}
			}
			api, err := a.NewClient()
			if err != nil {
				return err
			}
			ctx, cancel := c.Context(), func() {}
			if limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, limit)
			}
			defer cancel()
			return a.waitForJobs(ctx, api, names, what)
		},
	}
	c.Flags().StringVar(&what, "for", waitForEnd, "state to wait for: ended or running")
	c.Flags().DurationVar(&limit, "timeout", 0, "give up after this time; 0 waits without limit")
	cli.CompleteFixed(c, "for", []string{waitForEnd, waitForRunning})
	return c
}

// waitForJobs waits for all jobs. It first requests each of them, so that an unknown
// job is reported immediately.
func (a *jobCommands) waitForJobs(ctx context.Context, api *client.Client, names []string, what string) error {
	for _, name := range names {
		if _, err := api.GetJob(ctx, name); err != nil {
			return a.reportTimeout(ctx, name, what, err)
		}
	}
	status := 0
	for _, name := range names {
		stopNotices := printConnectionLosses(api, &syncWriter{to: a.Stderr})
		view, err := awaitJob(ctx, api, name, what)
		stopNotices()
		if err != nil {
			return a.reportTimeout(ctx, name, what, fmt.Errorf("wait for job %s: %w", name, err))
		}
		fmt.Fprintf(a.Stdout, "job %s %s\n", name, view.State)
		if view.Terminal && view.State != job.Finished {
			reportFailures(a.Stderr, &view)
			fmt.Fprint(a.Stderr, describeErrorOutput(ctx, api, &view))
		}
		if status == 0 && view.ExitCode != nil {
			status = *view.ExitCode
		}
	}
	if status != 0 {
		return &cli.ExitStatus{Code: status}
	}
	return nil
}

// reportTimeout returns cli.ExitTimedOut if --timeout has passed, and err otherwise.
func (a *jobCommands) reportTimeout(ctx context.Context, name, what string, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	fmt.Fprintf(a.Stderr, "mesos-gpu: job %s is not %s yet: see mesos-gpu describe %s\n", name, what, name)
	return &cli.ExitStatus{Code: cli.ExitTimedOut}
}

func awaitJob(ctx context.Context, api *client.Client, name, what string) (api.JobView, error) {
	if what == waitForEnd {
		return api.WaitForJob(ctx, name)
	}
	return awaitRunning(ctx, api, name)
}

// awaitRunning returns the job when all of its tasks run, or when it has ended.
func awaitRunning(ctx context.Context, c *client.Client, name string) (view api.JobView, err error) {
	for ev, err := range c.FollowEvents(ctx, name) {
		if err != nil {
			return view, err
		}
		if ev.State != job.Running && ev.State.IsLive() {
			continue
		}
		if err := c.RetryTemporary(ctx, func() error { view, err = c.GetJob(ctx, name); return err }); err != nil {
			return view, err
		}
		if view.Terminal || hasAllRunning(&view) {
			return view, nil
		}
	}
	return view, context.Cause(ctx)
}

// hasAllRunning reports whether as many tasks as the job requests run or have finished.
func hasAllRunning(view *api.JobView) bool {
	n := 0
	for i := range view.Tasks {
		if s := view.Tasks[i].State; s == job.Running || s == job.Finished {
			n++
		}
	}
	return n >= view.WantedTasks()
}
