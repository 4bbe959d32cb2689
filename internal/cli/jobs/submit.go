package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

func (a *jobCommands) submitCommand() *cobra.Command {
	var file string
	dry := false
	c := &cobra.Command{
		Use: "submit FILE", Short: "Submit a job file (- reads standard input): a job, or a schedule of jobs", Args: cli.AtMost("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && file == "":
				return &cli.UsageError{Err: errors.New("mesos-gpu submit needs FILE: see mesos-gpu submit --help")}
			case len(args) == 1 && file != "":
				return &cli.UsageError{Err: fmt.Errorf("mesos-gpu submit takes one file: %s or %s", args[0], file)}
			case file == "":
				file = args[0]
			}
			return a.submitFile(c.Context(), file, dry)
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "job file, as an alternative to the argument")
	c.Flags().BoolVar(&dry, "dry-run", false, "only check the file, and print the job as the scheduler would store it")
	a.AddOutputFlag(c)
	return c
}

func (a *jobCommands) submitFile(ctx context.Context, file string, dry bool) error {
	spec, err := ReadJobFile(a.App, file)
	if err != nil {
		return err
	}
	switch {
	case dry && a.Format == cli.FormatJSON:
		return a.PrintJSON(spec)
	case dry:
		return a.printJobFile(spec)
	}
	api, err := a.NewClient()
	if err != nil {
		return err
	}
	view, said, err := a.submitSpec(ctx, api, spec)
	if err != nil {
		return err
	}
	if a.ForPrograms {
		return a.PrintJSON(view)
	}
	fmt.Fprintln(a.Stdout, said)
	return nil
}

func ReadJobFile(a *cli.App, name string) (*job.Spec, error) {
	if name == "-" {
		return jobfile.Read(a.Stdin, "standard input")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open job file: %w", err)
	}
	defer f.Close()
	return jobfile.Read(f, name)
}
