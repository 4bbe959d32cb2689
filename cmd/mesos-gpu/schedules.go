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

func (a *app) schedulesCommand() *cobra.Command {
	return a.show("schedules", "List schedules, which submit jobs again and again", nil, func(ctx context.Context, api *client.Client, _ []string) (shown, error) {
		all, err := api.Schedules(ctx)
		return shown{all, func(p *printer) error { return listSchedules(p, all) }}, err
	})
}

func listSchedules(p *printer, all []api.Schedule) error {
	p = p.spare("RUNS", "ZONE", "LAST", "NEXT").orSay("There is no schedule.")
	return tableOf(p, all, []column[api.Schedule]{
		{"SCHEDULE", func(s api.Schedule) string { return s.Spec.Name }},
		{"CRON", func(s api.Schedule) string { return s.Spec.Schedule.Cron }},
		{"ZONE", func(s api.Schedule) string { return cmp.Or(s.Spec.Schedule.TimeZone, "UTC") }},
		{"NEXT", func(s api.Schedule) string { return moment(s.Next) }},
		{"RUNS", func(s api.Schedule) string { return fmt.Sprint(len(s.Runs)) }},
		{"LAST", func(s api.Schedule) string {
			if len(s.Runs) == 0 {
				return "-"
			}
			return s.Runs[len(s.Runs)-1].Job
		}},
		{"NOTE", func(s api.Schedule) string { return s.Note }},
	})
}

// submitSpec submits a job, or a schedule of jobs.
func (a *app) submitSpec(ctx context.Context, c *client.Client, spec *job.Spec) (view any, said string, err error) {
	if spec.Schedule == nil {
		view, err = c.Submit(ctx, *spec)
		return view, fmt.Sprintf("job %s submitted", spec.Name), err
	}
	schedule, err := c.AddSchedule(ctx, *spec)
	return schedule, fmt.Sprintf("schedule %s submitted: its first job starts at %s", spec.Name, schedule.Next.Format(time.RFC3339)), err
}

// describedSchedule is for a name that no job has. Where no schedule has it
// either it is unknown, as unknown says.
func describedSchedule(ctx context.Context, c *client.Client, name string, unknown error) (shown, error) {
	s, err := c.Schedule(ctx, name)
	if missing(err) {
		err = unknown
	}
	return shown{s, func(p *printer) error {
		when := s.Spec.Schedule
		p.facts([]fact{
			{"schedule", s.Spec.Name}, {"cron", when.Cron}, {"time zone", cmp.Or(when.TimeZone, "UTC")},
			{"overlap", string(when.Overlap)}, {"history", fmt.Sprint(when.History)}, {"next", moment(s.Next)}, {"note", cmp.Or(s.Note, "-")},
		})
		fmt.Fprintln(p)
		return tableOf(p.orSay("No run is remembered."), s.Runs, []column[api.ScheduledRun]{
			{"JOB", func(r api.ScheduledRun) string { return r.Job }},
			{"DUE", func(r api.ScheduledRun) string { return moment(r.Due) }},
		})
	}}, err
}

// endSchedule is for a name that no job has; see describedSchedule.
func (a *app) endSchedule(ctx context.Context, c *client.Client, name string, unknown error) error {
	switch err := c.EndSchedule(ctx, name); {
	case missing(err):
		return unknown
	case err != nil:
		return err
	}
	fmt.Fprintf(a.out, "schedule %s ended: jobs that it has submitted go on\n", name)
	return nil
}
