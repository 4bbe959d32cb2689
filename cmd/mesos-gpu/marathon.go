package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"mesos-gpu/framework"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/translate"
)

func (a *app) marathonCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "marathon", Short: "Work with Marathon's app definitions", Args: knownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.marathonTranslateCommand())
	return c
}

func (a *app) marathonTranslateCommand() *cobra.Command {
	settings := marathon.Settings{}
	c := &cobra.Command{
		Use: "translate FILE", Short: "Print an app definition as a job file (- reads standard input)", Args: args("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			spec, err := a.translate(args[0], settings)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(spec)
			}
			return jobfile.Write(a.out, &spec)
		},
	}
	f := c.Flags()
	f.StringVar(&settings.Role, "role", framework.DefaultRole, "role of apps without one, and the only one that others may have")
	settingsFlags(f, &settings)
	a.outputFlag(c)
	return c
}

// translate reads an app definition as one that was never deployed.
func (a *app) translate(name string, s marathon.Settings) (spec job.Spec, err error) {
	if s.GPUBehavior != marathon.GPURestricted && s.GPUBehavior != marathon.GPUUnrestricted {
		return spec, &usageError{fmt.Errorf("--gpu-scheduling-behavior %s: use %s or %s", s.GPUBehavior, marathon.GPURestricted, marathon.GPUUnrestricted)}
	}
	text, err := a.readDefinition(name)
	if err != nil {
		return spec, err
	}
	app, err := marathon.Parse(text, s)
	if err != nil {
		return spec, places(name, err)
	}
	app.Version, app.VersionInfo = "", nil
	spec, err = translate.Job(app, s)
	if err != nil {
		return spec, fmt.Errorf("%s: %w", name, err)
	}
	return spec, nil
}

func (a *app) readDefinition(name string) ([]byte, error) {
	in := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("open app definition: %w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, jobfile.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > jobfile.MaxSize {
		return nil, fmt.Errorf("%s: more than %d bytes, which no app definition needs", name, jobfile.MaxSize)
	}
	return text, nil
}

// places writes what is wrong with a definition line by line.
func places(name string, err error) error {
	invalid := (*marathon.Invalid)(nil)
	if !errors.As(err, &invalid) {
		return fmt.Errorf("%s: %w", name, err)
	}
	var lines []error
	for _, d := range invalid.Details {
		for _, text := range d.Errors {
			lines = append(lines, fmt.Errorf("%s: %s: %s", name, d.Path, text))
		}
	}
	return errors.Join(lines...)
}
