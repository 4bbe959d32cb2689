package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

func (a *jobCommands) schedulesCommand() *cobra.Command {
	return a.NewShowCommand("schedules", "List schedules, which submit jobs again and again", nil,
		func(ctx context.Context, api *client.Client, _ []string) (cli.CommandResult, error) {
			all, err := api.ListSchedules(ctx)
			return cli.CommandResult{Data: all, Print: func(p *term.TablePrinter) error { return printSchedules(p, all) }}, err
		})
}

func printSchedules(p *term.TablePrinter, all []api.ScheduleView) error {
	p = p.DropFirst("RUNS", "ZONE", "LAST", "NEXT").WithEmptyText("There is no schedule.")
	return term.PrintTable(p, all, []term.TableColumn[api.ScheduleView]{
		{Name: "SCHEDULE", Value: func(s api.ScheduleView) string { return s.Spec.Name }},
		{Name: "CRON", Value: func(s api.ScheduleView) string { return s.Spec.Schedule.Cron }},
		{Name: "ZONE", Value: func(s api.ScheduleView) string { return cmp.Or(s.Spec.Schedule.TimeZone, "UTC") }},
		{Name: "NEXT", Value: func(s api.ScheduleView) string { return term.FormatTime(s.NextRun) }},
		{Name: "RUNS", Value: func(s api.ScheduleView) string { return fmt.Sprint(len(s.Runs)) }},
		{Name: "LAST", Value: func(s api.ScheduleView) string {
			if len(s.Runs) == 0 {
				return "-"
			}
			return s.Runs[len(s.Runs)-1].Job
		}},
		{Name: "NOTE", Value: func(s api.ScheduleView) string { return s.Note }},
	})
}

// warnOfLargeTasks prints a warning if no agent has as many GPUs as a task of the submitted job
// needs. Without agents it prints none: the scheduler may not know them yet.
func (a *jobCommands) warnOfLargeTasks(ctx context.Context, c *client.Client, spec *job.Spec) {
	if spec.Request.GPUs == 0 || a.ForPrograms {
		return
	}
	agents, err := c.ListAgents(ctx)
	if err != nil || len(agents) == 0 {
		return // the job is submitted, and this only adds information
	}
	largest := 0
	for i := range agents {
		if !slices.ContainsFunc(agents[i].Types, spec.Request.Types.Match) {
			continue
		}
		n := agents[i].GPUs
		if agents[i].Shared != nil {
			n += agents[i].Shared.GPUs
		}
		largest = max(largest, n)
	}
	switch {
	case largest == 0:
		fmt.Fprintf(a.Stderr, "mesos-gpu: job %s waits until an agent with such GPUs joins: a task needs %s, and no agent has one\n", spec.Name, spec.Request)
	case largest < spec.Request.GPUs:
		fmt.Fprintf(a.Stderr,
			"mesos-gpu: job %s waits until an agent with more GPUs joins: a task needs %s, and the largest agent with such GPUs has %d\n",
			spec.Name, spec.Request, largest)
	}
}

// submitSpec submits a job or, if spec has a schedule, a schedule of jobs. said is a
// message for the user.
func (a *jobCommands) submitSpec(ctx context.Context, c *client.Client, spec *job.Spec) (view any, said string, err error) {
	if spec.Schedule == nil {
		view, err = SubmitWithWorkdir(ctx, a.App, spec, c.UploadWorkdir, c.SubmitJob)
		return view, fmt.Sprintf("job %s submitted", spec.Name), err
	}
	schedule, err := SubmitWithWorkdir(ctx, a.App, spec, c.UploadWorkdir, c.AddSchedule)
	return schedule, fmt.Sprintf("schedule %s submitted: its first job starts at %s", spec.Name, schedule.NextRun.Format(time.RFC3339)), err
}

// describeSchedule describes the schedule of a name that no job has. If there is no
// such schedule either, it returns unknown, the error about the job.
func describeSchedule(ctx context.Context, c *client.Client, name string, unknown error) (cli.CommandResult, error) {
	s, err := c.GetSchedule(ctx, name)
	if isNotFound(err) {
		err = unknown
	}
	return cli.CommandResult{Data: s, Print: func(p *term.TablePrinter) error {
		when := s.Spec.Schedule
		p.PrintFacts([]term.LabeledFact{
			{Name: "schedule", Text: s.Spec.Name},
			{Name: "cron", Text: when.Cron},
			{Name: "time zone", Text: cmp.Or(when.TimeZone, "UTC")},
			{Name: "overlap", Text: string(when.Overlap)},
			{Name: "history", Text: fmt.Sprint(when.History)},
			{Name: "next", Text: term.FormatTime(s.NextRun)},
			{Name: "note", Text: cmp.Or(s.Note, "-")},
		})
		fmt.Fprintln(p)
		return term.PrintTable(p.WithEmptyText("No run is remembered."), s.Runs, []term.TableColumn[api.ScheduledRun]{
			{Name: "JOB", Value: func(r api.ScheduledRun) string { return r.Job }},
			{Name: "DUE", Value: func(r api.ScheduledRun) string { return term.FormatTime(r.Due) }},
		})
	}}, err
}

// endScheduleOr ends the schedule of a name that no job has. If there is no such
// schedule either, it returns unknown, the error about the job.
func (a *jobCommands) endScheduleOr(ctx context.Context, c *client.Client, name string, unknown error) error {
	switch err := c.EndSchedule(ctx, name); {
	case isNotFound(err):
		return unknown
	case err != nil:
		return err
	}
	fmt.Fprintf(a.Stdout, "schedule %s ended: jobs that it has submitted go on\n", name)
	return nil
}
