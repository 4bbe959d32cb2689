package main

import (
	"github.com/spf13/cobra"

	"mesos-gpu/job/jobfile"
)

// schemaCommand prints what editors and other programs check job files by.
func (a *cliApp) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of job files", Args: requireArgs(),
		RunE: func(*cobra.Command, []string) error {
			text, err := jobfile.Schema()
			if err == nil {
				_, err = a.stdout.Write(text)
			}
			return err
		},
	}
}
