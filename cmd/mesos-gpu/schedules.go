package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/job"
)

func (a *cliApp) schedulesCommand() *cobra.Command {
	return a.newShowCommand("schedules", "List schedules, which submit jobs again and again", nil, func(ctx context.Context, api *client.Client, _ []string) (commandResult, error) {
		all, err := api.ListSchedules(ctx)
		return commandResult{all, func(p *tablePrinter) error { return printSchedules(p, all) }}, err
	})
}

func printSchedules(p *tablePrinter, all []api.ScheduleView) error {
	p = p.dropFirst("RUNS", "ZONE", "LAST", "NEXT").withEmptyText("There is no schedule.")
	return printTable(p, all, []tableColumn[api.ScheduleView]{
		{"SCHEDULE", func(s api.ScheduleView) string { return s.Spec.Name }},
		{"CRON", func(s api.ScheduleView) string { return s.Spec.Schedule.Cron }},
		{"ZONE", func(s api.ScheduleView) string { return cmp.Or(s.Spec.Schedule.TimeZone, "UTC") }},
		{"NEXT", func(s api.ScheduleView) string { return formatTime(s.NextRun) }},
		{"RUNS", func(s api.ScheduleView) string { return fmt.Sprint(len(s.Runs)) }},
		{"LAST", func(s api.ScheduleView) string {
			if len(s.Runs) == 0 {
				return "-"
			}
			return s.Runs[len(s.Runs)-1].Job
		}},
		{"NOTE", func(s api.ScheduleView) string { return s.Note }},
	})
}

// submitSpec submits a job, or a schedule of jobs.
func (a *cliApp) submitSpec(ctx context.Context, c *client.Client, spec *job.Spec) (view any, said string, err error) {
	if spec.Schedule == nil {
		view, err = c.SubmitJob(ctx, *spec)
		return view, fmt.Sprintf("job %s submitted", spec.Name), err
	}
	schedule, err := c.AddSchedule(ctx, *spec)
	return schedule, fmt.Sprintf("schedule %s submitted: its first job starts at %s", spec.Name, schedule.NextRun.Format(time.RFC3339)), err
}

// describeSchedule is for a name that no job has. Where no schedule has it
// either it is unknown, as unknown says.
func describeSchedule(ctx context.Context, c *client.Client, name string, unknown error) (commandResult, error) {
	s, err := c.GetSchedule(ctx, name)
	if isNotFound(err) {
		err = unknown
	}
	return commandResult{s, func(p *tablePrinter) error {
		when := s.Spec.Schedule
		p.printFacts([]labeledFact{
			{"schedule", s.Spec.Name}, {"cron", when.Cron}, {"time zone", cmp.Or(when.TimeZone, "UTC")},
			{"overlap", string(when.Overlap)}, {"history", fmt.Sprint(when.History)}, {"next", formatTime(s.NextRun)}, {"note", cmp.Or(s.Note, "-")},
		})
		fmt.Fprintln(p)
		return printTable(p.withEmptyText("No run is remembered."), s.Runs, []tableColumn[api.ScheduledRun]{
			{"JOB", func(r api.ScheduledRun) string { return r.Job }},
			{"DUE", func(r api.ScheduledRun) string { return formatTime(r.Due) }},
		})
	}}, err
}

// endScheduleOr is for a name that no job has; see describeSchedule.
func (a *cliApp) endScheduleOr(ctx context.Context, c *client.Client, name string, unknown error) error {
	switch err := c.EndSchedule(ctx, name); {
	case isNotFound(err):
		return unknown
	case err != nil:
		return err
	}
	fmt.Fprintf(a.stdout, "schedule %s ended: jobs that it has submitted go on\n", name)
	return nil
}
