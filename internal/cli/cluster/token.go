package cluster

import (
	"fmt"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/access"
	"mesos-gpu/internal/cli"
)

func (a *clusterCommands) tokenCommand() *cobra.Command {
	return &cobra.Command{
		Use: "token NAME", Short: "Create a token for the scheduler's access file",
		Long: "Create a token for the scheduler's access file. Standard output gets the token, which is stored nowhere; give it to its user only.\n" +
			"Standard error gets the lines for the access file, with the token's hash.",
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
