package jobs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/job/jobfile"
)

func (a *jobCommands) editCommand() *cobra.Command {
	var flags *jobFlags
	var sets []string
	c := &cobra.Command{
		ValidArgsFunction: a.CompleteArgument([]string{"LIVE"}),
		Use:               "edit JOB [-- COMMAND...]", Short: "Change a job that has not ended; it keeps its place in the queue",
		Args: func(c *cobra.Command, args []string) error {
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				args = args[:dash]
			}
			return cli.RequireArgs("JOB")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			overrides := make([]jobfile.Override, 0, len(sets))
			for _, text := range sets {
				o, err := jobfile.ParseOverride(text)
				if err != nil {
					return &cli.UsageError{Err: fmt.Errorf("--set %w", err)}
				}
				overrides = append(overrides, o)
			}
			if err := flags.readEnvironment(a.Getenv); err != nil {
				return err
			}
			edit, err := jobfile.EncodeEdit(flags.given(), overrides)
			if err == nil && len(args) > 1 {
				edit["command"] = args[1:]
			}
			if err == nil && len(edit) == 0 {
				err = errors.New("edit changes nothing: give --priority, --role, --timeout or another flag, or --set KEY=VALUE")
			}
			if err != nil {
				return &cli.UsageError{Err: err}
			}
			api, err := a.NewClient()
			if err != nil {
				return err
			}
			if _, err := api.EditJob(c.Context(), args[0], edit); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, term.EscapeControls(fmt.Sprintf("job %s edited: %s", args[0], strings.Join(slices.Sorted(maps.Keys(edit)), ", "))))
			return nil
		},
	}
	c.Long = c.Short + ".\nRunning tasks keep what they have; a new timeout applies to them too.\n" +
		"The role, the resources, --env and the COMMAND change while no task of the job holds resources; variables that are not named stay."
	flags = addEditFlags(c.Flags())
	c.Flags().StringArrayVar(&sets, "set", nil, "KEY=VALUE: set a key of the job file, or KEY.SUBKEY; without a VALUE restore its default")
	return c
}
