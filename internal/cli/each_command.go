package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/client"
	"mesos-gpu/internal/term"
)

// NewEachCommand returns a command that applies a function to each of its arguments, which are objects of one kind such as
// "agent". It prints done after each success, and returns the errors of all others. argument is the arguments' name in help.
func (a *App) NewEachCommand(verb, argument, kind, short, done string, apply func(c *client.Client, ctx context.Context, name string) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " " + argument + "...", Short: short, Args: AtLeast(argument),
		RunE: a.WithClient(func(ctx context.Context, api *client.Client, names []string) error {
			var errs []error
			for _, name := range names {
				err := apply(api, ctx, name)
				if err == nil {
					fmt.Fprintln(a.Stdout, term.EscapeControls(kind+" "+name+": "+done))
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		}),
	}
}
