package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/job"
)

func (a *app) schedulesCommand() *cobra.Command {
	return a.show("schedules", "List schedules, which submit jobs again and again", nil, func(c *cobra.Command, api *client.Client, _ []string) (any, func() error, error) {
		all, err := api.Schedules(c.Context())
		return all, func() error { return a.scheduleTable(all) }, err
	})
}

func (a *app) scheduleTable(all []api.Schedule) error {
	return a.table("SCHEDULE\tCRON\tZONE\tNEXT\tRUNS\tLAST\tNOTE", len(all), func(i int) string {
		s, last := all[i], "-"
		if n := len(s.Runs); n > 0 {
			last = s.Runs[n-1].Job
		}
		when := s.Spec.Schedule
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s\t%s", s.Spec.Name, when.Cron, cmp.Or(when.TimeZone, "UTC"), s.Next.Format(time.RFC3339), len(s.Runs), last, s.Note)
	})
}

// withSchedules shows the schedules below the jobs, if there are some.
func (a *app) withSchedules(ctx context.Context, c *client.Client) error {
	all, err := c.Schedules(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	fmt.Fprintln(a.out)
	return a.scheduleTable(all)
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

// noSuch tells a name that is not there from other errors.
func noSuch(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}

// describeSchedule is for a name that no job has. Where no schedule has it
// either it is unknown, as missing says.
func (a *app) describeSchedule(ctx context.Context, c *client.Client, name string, missing error) (any, func() error, error) {
	s, err := c.Schedule(ctx, name)
	if noSuch(err) {
		err = missing
	}
	return s, func() error {
		when := s.Spec.Schedule
		for _, line := range [][2]string{
			{"schedule", s.Spec.Name}, {"cron", when.Cron}, {"time zone", cmp.Or(when.TimeZone, "UTC")},
			{"overlap", string(when.Overlap)}, {"history", fmt.Sprint(when.History)}, {"next", s.Next.Format(time.RFC3339)}, {"note", cmp.Or(s.Note, "-")},
		} {
			fmt.Fprintf(a.out, "%-11s %s\n", line[0], printable(line[1]))
		}
		fmt.Fprintln(a.out)
		return a.table("JOB\tDUE", len(s.Runs), func(i int) string {
			return fmt.Sprintf("%s\t%s", s.Runs[i].Job, s.Runs[i].Due.Format(time.RFC3339))
		})
	}, err
}

// endSchedule is for a name that no job has; see describeSchedule.
func (a *app) endSchedule(ctx context.Context, c *client.Client, name string, missing error) error {
	switch err := c.EndSchedule(ctx, name); {
	case noSuch(err):
		return missing
	case err != nil:
		return err
	}
	fmt.Fprintf(a.out, "schedule %s ended: jobs that it has submitted go on\n", name)
	return nil
}
