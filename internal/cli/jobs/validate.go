package jobs

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func (a *jobCommands) validateCommand() *cobra.Command {
	var files *jobFileFlags
	c := &cobra.Command{
		Use: "validate FILE...", Short: "Check job files and report each mistake with its line and column (- reads standard input)",
		Long: "Check job files as submit does, without a scheduler. GPU types and other facts about the cluster are not checked.",
		RunE: func(_ *cobra.Command, args []string) error {
			jobs, err := files.readFiles(a.App, args)
			for _, j := range jobs {
				kind, file := "job", j.file
				if file == "-" {
					file = standardInput
				}
				if j.Schedule != nil {
					kind = "schedule"
				}
				if missing := checkWorkdirFolder(j.Workdir); missing != nil {
					err = errors.Join(err, fmt.Errorf("%s: workdir: %w", file, missing))
					continue
				}
				for _, wish := range slices.Concat(j.Request.Types.Include, j.Request.Types.Exclude) {
					if !gpu.IsKnownType(wish) {
						fmt.Fprintf(a.Stderr, "mesos-gpu: %s: gpu_type %q: no NVIDIA GPU has that name: submit asks whether an agent has it\n", file, wish)
					}
				}
				fmt.Fprintf(a.Stdout, "%s: %s %s, %d %s with %s each\n", file, kind, j.Name, j.Tasks, gpu.Plural(j.Tasks, "task"), j.Request)
			}
			return err
		},
	}
	files = addJobFileFlags(c)
	return c
}

// checkWorkdirFolder returns an error if the working folder of a job, which submit uploads, does not exist.
func checkWorkdirFolder(folder string) error {
	if folder == "" || job.IsWorkdirDigest(folder) {
		return nil
	}
	info, err := os.Stat(folder)
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return fmt.Errorf("%s: %w", folder, path.Err)
	}
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s: %w", folder, syscall.ENOTDIR)
	}
	return err
}
