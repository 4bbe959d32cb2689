package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mesos-gpu/job/jobfile"
)

// AcceptDurations makes all flags of durations of a command and those below it accept the durations of job files.
func AcceptDurations(c *cobra.Command) {
	for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "duration" {
				f.Value = durationFlag{f.Value}
			}
		})
	}
	for _, sub := range c.Commands() {
		AcceptDurations(sub)
	}
}

// durationFlag parses the value of a flag for durations as job files do.
type durationFlag struct{ pflag.Value }

func (d durationFlag) Set(text string) error {
	parsed, err := jobfile.ParseDuration(text)
	if err != nil {
		return err
	}
	return d.Value.Set(parsed.String())
}
