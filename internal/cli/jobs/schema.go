package jobs

import (
	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
	"mesos-gpu/job/jobfile"
)

// schemaCommand prints the JSON schema of job files, for editors and validators.
func (a *jobCommands) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of job files", Args: cli.RequireArgs(),
		RunE: func(*cobra.Command, []string) error {
			text, err := jobfile.Schema()
			if err == nil {
				_, err = a.Stdout.Write(text)
			}
			return err
		},
	}
}
