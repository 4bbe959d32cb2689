package jobs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mesos-gpu/framework"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/translate"
)

func (a *jobCommands) marathonCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "marathon", Short: "Work with Marathon's app definitions", Args: cli.RejectUnknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.marathonTranslateCommand())
	return c
}

func (a *jobCommands) marathonTranslateCommand() *cobra.Command {
	settings := marathon.ParseSettings{}
	c := &cobra.Command{
		Use: "translate FILE", Short: "Print an app definition as a job file (- reads standard input)", Args: cli.RequireArgs("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			spec, err := a.translateApp(args[0], settings)
			if err != nil {
				return err
			}
			if a.ForPrograms {
				return a.PrintJSON(spec)
			}
			return a.WriteJobFile(&spec)
		},
	}
	f := c.Flags()
	f.StringVar(&settings.Role, "role", framework.DefaultRole, "role of apps that set none; apps must not set another role")
	AddMarathonFlags(f, &settings)
	a.AddOutputFlag(c)
	return c
}

// translateApp parses an app definition as a new app.
func (a *jobCommands) translateApp(name string, s marathon.ParseSettings) (spec job.Spec, err error) {
	if s.GPUBehavior != marathon.GPURestricted && s.GPUBehavior != marathon.GPUUnrestricted {
		return spec, &cli.UsageError{Err: fmt.Errorf("--gpu-scheduling-behavior %s: use %s or %s", s.GPUBehavior, marathon.GPURestricted, marathon.GPUUnrestricted)}
	}
	text, err := a.readDefinition(name)
	if err != nil {
		return spec, err
	}
	s.Warn = func(w marathon.Warning) { fmt.Fprintf(a.Stderr, "mesos-gpu: %s: %s: %s\n", name, w.Path, w.Reason) }
	app, err := marathon.ParseApp(text, s)
	if err != nil {
		return spec, splitDetails(name, err)
	}
	app.Version, app.VersionInfo = "", nil
	spec, err = translate.JobSpec(app, s)
	if err != nil {
		return spec, fmt.Errorf("%s: %w", name, err)
	}
	spec.Group = "" // a user who submits the job may not set the group of an app
	return spec, nil
}

func (a *jobCommands) readDefinition(name string) ([]byte, error) {
	in := a.Stdin
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

// splitDetails returns an error with one line for each error in a definition.
func splitDetails(name string, err error) error {
	invalid := (*marathon.ValidationError)(nil)
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

// AddMarathonFlags adds the flags that control how app definitions are parsed.
func AddMarathonFlags(f *pflag.FlagSet, s *marathon.ParseSettings) {
	f.StringVar(&s.DefaultNetwork, "default-network", "", "default container network of Marathon apps")
	f.StringVar(&s.BridgeNetwork, "bridge-network", marathon.MesosBridge,
		"CNI network of Marathon apps with MESOS containers in bridge mode, and its name in ipAddress")
	f.BoolVar(&s.Strict, "marathon-strict", false, "reject Marathon apps with fields that Marathon does not have, instead of dropping them with a warning")
	f.StringVar(&s.GPUBehavior, "gpu-scheduling-behavior", marathon.GPURestricted,
		fmt.Sprintf("default of Marathon apps: %s keeps apps without GPUs off agents that offer GPUs, %s does not", marathon.GPURestricted, marathon.GPUUnrestricted))
}
