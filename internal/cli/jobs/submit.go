package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

func (a *jobCommands) submitCommand() *cobra.Command {
	var files *jobFileFlags
	dry, when := false, false
	c := &cobra.Command{
		Use: "submit FILE...", Short: "Submit job files (- reads standard input): jobs, or schedules of jobs",
		Long: "Submit job files (- reads standard input): jobs, or schedules of jobs. A file may have several jobs, separated by lines with ---.\n" +
			"Of a folder, the files *.yaml, *.yml and *.json are read. All files are checked before the first job is submitted; a job follows those in its after.\n" +
			"Flags such as --gpus and --set replace values of the files. {{NAME}} in a value is replaced by --var NAME=value.",
		RunE: func(c *cobra.Command, args []string) error {
			jobs, err := files.readJobs(a.App, args)
			switch {
			case err != nil:
				return err
			case when && !dry:
				return &cli.UsageError{Err: errors.New("--when is for --dry-run")}
			case when:
				return a.printStartEstimates(c.Context(), jobs)
			case dry:
				return a.printJobFiles(jobs)
			}
			return a.submitJobs(c.Context(), jobs)
		},
	}
	files = addJobFileFlags(c)
	c.Flags().BoolVar(&dry, "dry-run", false, "only check the files, and print the jobs as the scheduler would store them")
	c.Flags().BoolVar(&when, "when", false, "with --dry-run: check the jobs with the scheduler, and print when each would start if it were submitted now")
	a.AddOutputFlag(c)
	return c
}

// printStartEstimates checks the jobs with the scheduler, and prints when each would start by itself.
func (a *jobCommands) printStartEstimates(ctx context.Context, jobs []jobFromFile) error {
	api, err := a.NewClient()
	if err != nil {
		return err
	}
	var all []any
	for _, j := range jobs {
		spec := *j.Spec
		if !job.IsWorkdirDigest(spec.Workdir) {
			spec.Workdir = "" // not uploaded yet; it does not change the start
		}
		checked, err := api.ValidateJob(ctx, spec, true)
		if err != nil {
			return nameJob(j.Name, err)
		}
		if a.ForPrograms {
			all = append(all, checked)
			continue
		}
		text := "cannot be estimated: the job waits for other jobs, or for more than GPUs, CPUs and memory"
		switch {
		case checked.Start != nil:
			text = cli.DescribeStartEstimate(checked.Start, time.Now())
		case len(checked.Warnings) > 0:
			text = cli.NeverStarts
		}
		fmt.Fprintf(a.Stdout, "%s: %s\n", j.Name, text)
		for _, warning := range checked.Warnings {
			fmt.Fprintf(a.Stderr, "mesos-gpu: %s: %s\n", j.Name, warning)
		}
	}
	if a.ForPrograms {
		return a.printOneOrAll(all)
	}
	return nil
}

// printJobFiles prints the jobs as one job file or, with -o json, as the API accepts them.
func (a *jobCommands) printJobFiles(jobs []jobFromFile) error {
	if a.Format == cli.FormatJSON {
		var all []any
		for _, j := range jobs {
			all = append(all, j.Spec)
		}
		return a.printOneOrAll(all)
	}
	for i, j := range jobs {
		if i > 0 {
			fmt.Fprintln(a.Stdout, "---")
		}
		if err := a.printJobFile(j.Spec); err != nil {
			return err
		}
	}
	return nil
}

// printOneOrAll prints a single value as such, and several as a list.
func (a *jobCommands) printOneOrAll(all []any) error {
	if len(all) == 1 {
		return a.PrintJSON(all[0])
	}
	return a.PrintJSON(all)
}

// submitJobs submits the jobs in their order, and continues after one that is rejected.
func (a *jobCommands) submitJobs(ctx context.Context, jobs []jobFromFile) error {
	api, err := a.NewClient()
	if err != nil {
		return err
	}
	var views []any
	var errs []error
	for _, j := range jobs {
		done, err := a.submitSpec(ctx, api, j.Spec)
		switch {
		case err != nil && len(jobs) > 1:
			errs = append(errs, nameJob(j.Name, err))
		case err != nil:
			return err
		case a.ForPrograms:
			views = append(views, done.view)
		default:
			fmt.Fprintln(a.Stdout, done.said)
			a.printWarnings(j.Spec.Name, done.warnings)
		}
	}
	if failed := len(errs); failed > 0 {
		errs = append(errs, fmt.Errorf("%d of %d submitted", len(jobs)-failed, len(jobs)))
	}
	if len(views) > 0 {
		errs = append(errs, a.printOneOrAll(views))
	}
	return errors.Join(errs...)
}

// jobError is an error about one of several jobs.
type jobError struct {
	name string
	err  error
}

// nameJob returns an error in which each line names the job.
func nameJob(name string, err error) error { return &jobError{name, err} }

func (e *jobError) Error() string {
	before := "job " + e.name + ": "
	return before + strings.ReplaceAll(e.err.Error(), "\n", "\n"+before)
}

func (e *jobError) Unwrap() error { return e.err }
