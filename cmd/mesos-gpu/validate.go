package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"mesos-gpu/gpu"
)

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE...", Short: "Check job files, and name each mistake with its line (- reads standard input)", Args: atLeast("FILE"),
		Long: "Check job files as submit does, without a scheduler: what only the cluster knows, such as its GPU types, is not checked.",
		RunE: func(_ *cobra.Command, files []string) error {
			var errs []error
			for _, name := range files {
				spec, err := a.readJobFile(name)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(a.out, "%s: job %s, %d %s with %s each\n", name, spec.Name, spec.Tasks, gpu.Plural(spec.Tasks, "task"), spec.Request)
			}
			return errors.Join(errs...)
		},
	}
}
