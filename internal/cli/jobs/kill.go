package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
)

func (a *jobCommands) killCommand() *cobra.Command {
	force := false
	cmd := &cobra.Command{
		ValidArgsFunction: a.CompleteArgument([]string{"LIVE..."}),
		Use:               "kill JOB...", Short: "End jobs, after their kill grace, or schedules", Args: cli.AtLeast("JOB"),
		Long: "End jobs, after their kill grace, or schedules. Patterns such as 'run-*' name the jobs that have not ended and match.",
		RunE: a.WithClient(func(ctx context.Context, api *client.Client, names []string) error {
			var errs []error
			for _, pattern := range names {
				matching, err := expandPattern(ctx, api, pattern)
				errs = append(errs, err)
				for _, name := range matching {
					errs = append(errs, a.killJob(ctx, api, name, force))
				}
			}
			return errors.Join(errs...)
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "send SIGKILL immediately, also to jobs whose kill grace has started")
	return cmd
}

// expandPattern returns the names of live jobs that match a pattern, and a name as it is: names have none of the characters
// of patterns.
func expandPattern(ctx context.Context, c *client.Client, pattern string) (names []string, err error) {
	if !strings.ContainsAny(pattern, `*?[`) {
		return []string{pattern}, nil
	}
	jobs, err := c.ListJobsMatching(ctx, api.JobQuery{State: api.LiveJobs, Name: pattern})
	if err == nil && len(jobs) == 0 {
		err = fmt.Errorf("no job that has not ended matches %q", pattern)
	}
	for i := range jobs {
		names = append(names, jobs[i].Spec.Name)
	}
	return names, err
}

func (a *jobCommands) killJob(ctx context.Context, api *client.Client, name string, force bool) error {
	view, err := api.GetJob(ctx, name)
	if isNotFound(err) {
		return a.endScheduleOr(ctx, api, name, err)
	}
	if err != nil {
		return err
	}
	if view.Terminal {
		fmt.Fprintf(a.Stdout, "job %s is %s already\n", name, view.State)
		return nil
	}
	end, asked := api.KillJob, "kill requested"
	if force {
		end, asked = api.ForceKillJob, "kill by force requested"
	}
	if err := end(ctx, name); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "job %s: %s\n", name, asked)
	return nil
}
