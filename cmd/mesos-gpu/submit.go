package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

func (a *app) submitCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "submit FILE", Short: "Submit a job file (- reads standard input): a job, or a schedule of jobs", Args: args("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			spec, err := a.readJobFile(args[0])
			if err != nil {
				return err
			}
			api, err := a.client()
			if err != nil {
				return err
			}
			view, said, err := a.submitSpec(c.Context(), api, spec)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(view)
			}
			fmt.Fprintln(a.out, said)
			return nil
		},
	}
	a.jsonFlag(c)
	return c
}

func (a *app) readJobFile(name string) (*job.Spec, error) {
	if name == "-" {
		return jobfile.Read(a.in, "standard input")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open job file: %w", err)
	}
	defer f.Close()
	return jobfile.Read(f, name)
}

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func (a *app) killCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kill JOB", Short: "End a job, or a schedule", Args: args("JOB"),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := a.client()
			if err != nil {
				return err
			}
			view, err := api.Job(c.Context(), args[0])
			if noSuch(err) {
				return a.endSchedule(c.Context(), api, args[0], err)
			}
			if err != nil {
				return err
			}
			if view.Terminal {
				fmt.Fprintf(a.out, "job %s is %s already\n", args[0], view.State)
				return nil
			}
			if err := api.Kill(c.Context(), args[0]); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "job %s: kill requested\n", args[0])
			return nil
		},
	}
}
