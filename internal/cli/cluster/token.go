package cluster

import (
	"fmt"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/access"
	"mesos-gpu/internal/cli"
)

func (a *clusterCommands) tokenCommand() *cobra.Command {
	return &cobra.Command{
		Use: "token NAME", Short: "Make a token for the scheduler's access file",
		Long: "Make a token for the scheduler's access file. The token goes to standard output, for its user alone, and is kept nowhere;\n" +
			"the lines for the file go to standard error: they hold its hash only.",
		Args: cli.RequireArgs("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			token, hash, err := access.NewToken(args[0])
			if err != nil {
				return &cli.UsageError{Err: err}
			}
			if _, err := fmt.Fprintln(a.Stdout, token); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Stderr, "tokens:\n  - name: %s\n    hash: %s\n", args[0], hash)
			return err
		},
	}
}
