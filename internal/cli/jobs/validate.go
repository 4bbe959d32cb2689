package jobs

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
)

func (a *jobCommands) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE...", Short: "Check job files and report each mistake with its line and column (- reads standard input)", Args: cli.AtLeast("FILE"),
		Long: "Check job files as submit does, without a scheduler. GPU types and other facts about the cluster are not checked.",
		RunE: func(_ *cobra.Command, files []string) error {
			var errs []error
			for _, name := range files {
				spec, err := ReadJobFile(a.App, name)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				kind := "job"
				if spec.Schedule != nil {
					kind = "schedule"
				}
				for _, wish := range slices.Concat(spec.Request.Types.Include, spec.Request.Types.Exclude) {
					if !gpu.IsKnownType(wish) {
						fmt.Fprintf(a.Stderr, "mesos-gpu: %s: gpu_type %q: no NVIDIA GPU has that name: submit asks whether an agent has it\n", name, wish)
					}
				}
				fmt.Fprintf(a.Stdout, "%s: %s %s, %d %s with %s each\n", name, kind, spec.Name, spec.Tasks, gpu.Plural(spec.Tasks, "task"), spec.Request)
			}
			return errors.Join(errs...)
		},
	}
}
