package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
)

func (a *jobCommands) killCommand() *cobra.Command {
	force := false
	cmd := &cobra.Command{
		ValidArgsFunction: a.CompleteArgument([]string{"LIVE..."}),
		Use:               "kill JOB...", Short: "End jobs, after their kill grace, or schedules", Args: cli.AtLeast("JOB"),
		RunE: func(c *cobra.Command, names []string) error {
			api, err := a.NewClient()
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range names {
				errs = append(errs, a.killJob(c.Context(), api, name, force))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "send SIGKILL immediately, also to jobs whose kill grace has started")
	return cmd
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
