package jobs

import (
	"context"
	"fmt"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
)

// describedEvents is how many of a job's latest events describe shows.
const describedEvents = 20

// jobAppendix contains the texts that describe prints below a job and its tasks.
type jobAppendix struct {
	// job is NAME or NAME@RUN.
	job     string
	history api.JobHistory
	// errorOutput is the end of a failed task's standard error, or "".
	errorOutput string
	// efficiency is a line about the job's GPU time, or "".
	efficiency string
}

// readAppendix reads the latest events, of which a scheduler of an earlier version has none, and
// the output of a failed task.
func readAppendix(ctx context.Context, c *client.Client, name string, view *api.JobView) jobAppendix {
	a := jobAppendix{job: name, errorOutput: describeErrorOutput(ctx, c, view)}
	if history, err := c.GetJobHistory(ctx, a.job, describedEvents); err == nil {
		a.history = history
	}
	if view.Terminal && usesGPUs(view) {
		if one, err := c.AccountJob(ctx, name, 0); err == nil {
			a.efficiency = cli.FormatEfficiency(&one)
		}
	}
	return a
}

// usesGPUs reports whether the job's tasks hold GPUs or shares of them.
func usesGPUs(view *api.JobView) bool {
	return view.Spec.Request.GPUs > 0
}

func (a *jobAppendix) print(p *term.TablePrinter) error {
	if a.efficiency != "" {
		fmt.Fprintf(p, "\n%s\n", a.efficiency)
	}
	if len(a.history.Events) > 0 {
		fmt.Fprintln(p)
		if err := printEventRows(p, a.history.Events, 0); err != nil {
			return err
		}
	}
	if a.history.Omitted > 0 {
		fmt.Fprintf(p, "%d earlier events: mesos-gpu events %s\n", a.history.Omitted, a.job)
	}
	if a.errorOutput == "" {
		return nil
	}
	_, err := fmt.Fprintf(p, "\n%s", a.errorOutput)
	return err
}
