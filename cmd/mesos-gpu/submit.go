package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

func (a *cliApp) submitCommand() *cobra.Command {
	var file string
	dry := false
	c := &cobra.Command{
		Use: "submit FILE", Short: "Submit a job file (- reads standard input): a job, or a schedule of jobs", Args: atMost("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && file == "":
				return &usageError{errors.New("mesos-gpu submit needs FILE: see mesos-gpu submit --help")}
			case len(args) == 1 && file != "":
				return &usageError{fmt.Errorf("mesos-gpu submit takes one file: %s or %s", args[0], file)}
			case file == "":
				file = args[0]
			}
			return a.submitFile(c.Context(), file, dry)
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the job file, for those who are used to it")
	c.Flags().BoolVar(&dry, "dry-run", false, "only check the file, and print the job as the scheduler would keep it")
	a.addOutputFlag(c)
	return c
}

func (a *cliApp) submitFile(ctx context.Context, file string, dry bool) error {
	spec, err := a.readJobFile(file)
	if err != nil {
		return err
	}
	switch {
	case dry && a.forPrograms:
		return a.printJSON(spec)
	case dry:
		return jobfile.Write(a.stdout, spec)
	}
	api, err := a.newClient()
	if err != nil {
		return err
	}
	view, said, err := a.submitSpec(ctx, api, spec)
	if err != nil {
		return err
	}
	if a.forPrograms {
		return a.printJSON(view)
	}
	fmt.Fprintln(a.stdout, said)
	return nil
}

func (a *cliApp) readJobFile(name string) (*job.Spec, error) {
	if name == "-" {
		return jobfile.Read(a.stdin, "standard input")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open job file: %w", err)
	}
	defer f.Close()
	return jobfile.Read(f, name)
}
