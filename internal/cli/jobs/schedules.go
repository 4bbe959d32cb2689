package jobs

import (
	"cmp"
	"context"
	"fmt"
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

// printWarnings prints why a submitted job cannot start on the present agents.
func (a *jobCommands) printWarnings(name string, warnings []string) {
	if a.ForPrograms {
		return // which find them in the job
	}
	for _, warning := range warnings {
		fmt.Fprintf(a.Stderr, "mesos-gpu: %s: %s\n", name, warning)
	}
}

// submission is the result of submitSpec.
type submission struct {
	// view is the job or the schedule, for programs. said is a message for the user.
	view any
	said string
	// warnings are why the job cannot start on the present agents.
	warnings []string
}

// submitSpec submits a job or, if spec has a schedule, a schedule of jobs.
func (a *jobCommands) submitSpec(ctx context.Context, c *client.Client, spec *job.Spec) (submission, error) {
	if spec.Schedule == nil {
		view, err := SubmitWithWorkdir(ctx, a.App, spec, c.UploadWorkdir, c.SubmitJob)
		return submission{view, describeSubmitted(spec.Name, &view), view.Warnings}, err
	}
	var warnings []string
	schedule, err := SubmitWithWorkdir(ctx, a.App, spec, c.UploadWorkdir, c.AddSchedule)
	if err == nil && !a.ForPrograms {
		one := *spec
		one.Schedule, one.Name = nil, "" // a name of its own: the schedule has this one
		if checked, err := c.ValidateJob(ctx, one, false); err == nil {
			warnings = checked.Warnings
		}
	}
	return submission{schedule, fmt.Sprintf("schedule %s submitted: its first job starts at %s", spec.Name, schedule.NextRun.Format(time.RFC3339)), warnings}, err
}

// describeSubmitted returns the line about a submitted job, with its number, and whether it is another job than the one that had
// the name before.
func describeSubmitted(name string, j *api.JobView) string {
	text := fmt.Sprintf("job %s submitted", name)
	if j.Number > 0 {
		text += fmt.Sprintf(": number %d", j.Number)
	}
	if j.DiffersFrom > 0 {
		text += fmt.Sprintf("; it is another job than run %d: mesos-gpu get %s@%d prints that one", j.DiffersFrom, j.Spec.Name, j.DiffersFrom)
	}
	return text
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
