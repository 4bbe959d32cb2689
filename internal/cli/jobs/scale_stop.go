package jobs

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/client"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
)

func (a *jobCommands) scaleCommand() *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: a.CompleteArgument([]string{"SERVICE", "TASKS"}),
		Use:               "scale JOB TASKS", Short: "Set the number of tasks of a service", Args: cli.RequireArgs("JOB", "TASKS"),
		RunE: func(c *cobra.Command, args []string) error {
			tasks, err := strconv.Atoi(args[1])
			if err != nil || tasks < 0 {
				return &cli.UsageError{Err: fmt.Errorf("%q is no number of tasks", args[1])}
			}
			api, err := a.NewClient()
			if err != nil {
				return err
			}
			if err := api.ScaleJob(c.Context(), args[0], tasks); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "job %s: %d %s wanted\n", args[0], tasks, gpu.Plural(tasks, "task"))
			return nil
		},
	}
}

func (a *jobCommands) stopCommand() *cobra.Command {
	retire := false
	c := &cobra.Command{
		Use: "stop TASK", Short: "End one task; a service starts another instead", Args: cli.RequireArgs("TASK"),
		RunE: a.WithClient(func(ctx context.Context, api *client.Client, args []string) error {
			task, err := resolveTaskID(ctx, api, args[0], false)
			if err != nil {
				return err
			}
			if err := api.StopTask(ctx, task, retire); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "task %s: stop requested\n", task)
			return nil
		}),
	}
	c.Long = c.Short + ".\nTASK is its id or JOB.NUMBER."
	c.Flags().BoolVar(&retire, "retire", false, "do not replace the task: the service has one task less")
	return c
}
