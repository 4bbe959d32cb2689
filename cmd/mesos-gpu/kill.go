package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/client"
)

func (a *app) killCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kill JOB...", Short: "End jobs, with their kill grace, or schedules", Args: atLeast("JOB"),
		RunE: func(c *cobra.Command, names []string) error {
			api, err := a.client()
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range names {
				errs = append(errs, a.kill(c.Context(), api, name))
			}
			return errors.Join(errs...)
		},
	}
}

func (a *app) kill(ctx context.Context, api *client.Client, name string) error {
	view, err := api.Job(ctx, name)
	if missing(err) {
		return a.endSchedule(ctx, api, name, err)
	}
	if err != nil {
		return err
	}
	if view.Terminal {
		fmt.Fprintf(a.out, "job %s is %s already\n", name, view.State)
		return nil
	}
	if err := api.Kill(ctx, name); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "job %s: kill requested\n", name)
	return nil
}
