package jobs

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// printRuns prints the runs of one job.
func printRuns(p *term.TablePrinter, runs []api.JobView) error {
	return term.PrintTable(p.DropFirst("TASKS", "SUBMITTED"), runs, insertNumbers([]term.TableColumn[api.JobView]{
		{Name: "RUN", Value: func(j api.JobView) string { return j.RunID().String() }},
		{Name: "STATE", Value: func(j api.JobView) string { return string(j.State) }},
		{Name: "TASKS", Value: func(j api.JobView) string { return formatTaskCount(&j) }},
		{Name: "SUBMITTED", Value: func(j api.JobView) string { return term.FormatTime(j.Submitted) }},
		{Name: "ENDED", Value: func(j api.JobView) string { return term.FormatTime(timesOf(&j).ended) }},
		{Name: "EXIT", Value: func(j api.JobView) string {
			if j.ExitCode == nil {
				return "-"
			}
			return strconv.Itoa(*j.ExitCode)
		}},
		{Name: "MESSAGE", Value: endMessage},
	}, runs))
}

// endMessage returns the message of the first task that did not finish, or "".
func endMessage(j api.JobView) string {
	for i := range j.Tasks {
		if t := &j.Tasks[i]; !t.State.IsLive() && t.State != job.Finished {
			return t.Message
		}
	}
	return ""
}

func (a *jobCommands) getCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "get JOB", Short: "Print a job, a run of it or a schedule as a job file that submit accepts", Args: cli.RequireArgs("JOB"),
		RunE: a.WithClient(func(ctx context.Context, api *client.Client, args []string) error {
			spec, err := fetchSubmittableSpec(ctx, api, args[0])
			if err != nil {
				return err
			}
			return a.printJobFile(spec)
		}),
	}
	a.AddOutputFlag(c)
	return c
}

// printJobFile prints a job file in YAML or, with -o json, in JSON.
func (a *jobCommands) printJobFile(spec *job.Spec) error {
	if a.Format != cli.FormatJSON {
		return a.WriteJobFile(spec)
	}
	text, err := jobfile.EncodeJSON(spec)
	if err != nil {
		return err
	}
	return a.PrintJSON(text)
}

// fetchSubmittableSpec returns the specification of a job, a run of it or a schedule, as a user may submit it.
func fetchSubmittableSpec(ctx context.Context, c *client.Client, name string) (*job.Spec, error) {
	view, err := c.GetJob(ctx, name)
	if isNotFound(err) {
		if schedule, scheduleErr := c.GetSchedule(ctx, name); scheduleErr == nil {
			view.Spec, err = &schedule.Spec, nil
		}
	}
	if err != nil {
		return nil, err
	}
	spec := view.SubmittableSpec()
	return &spec, nil
}

func (a *jobCommands) rerunCommand() *cobra.Command {
	var r api.RerunRequest
	c := &cobra.Command{
		Use: "rerun JOB", Short: "Submit a job that has ended, or an earlier run of it (JOB@2), as a new run", Args: cli.RequireArgs("JOB"),
		RunE: a.WithClient(func(ctx context.Context, api *client.Client, args []string) error {
			view, err := api.RerunJob(ctx, args[0], r)
			if isNotFound(err) {
				if _, scheduleErr := api.GetSchedule(ctx, args[0]); scheduleErr == nil {
					return fmt.Errorf("%s is a schedule, which submits jobs itself: name one of its jobs, see mesos-gpu describe %s", args[0], args[0])
				}
			}
			if err != nil {
				return err
			}
			if a.ForPrograms {
				return a.PrintJSON(view)
			}
			fmt.Fprintln(a.Stdout, describeSubmitted(view.RunID().String(), &view))
			if view.Spec.Workdir != "" {
				fmt.Fprintln(a.Stderr, "mesos-gpu: it has the working folder of the earlier run; to upload the folder again, submit the job file")
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&r.Failed, "failed", false, "run only the tasks that did not finish; the others count as finished in the new run")
	a.AddOutputFlag(c)
	return c
}
