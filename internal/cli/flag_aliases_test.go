package cli_test

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/cli/agent"
	"mesos-gpu/internal/cli/cluster"
	"mesos-gpu/internal/cli/daemons"
	"mesos-gpu/internal/cli/jobs"
	"mesos-gpu/internal/cli/simulate"
	"mesos-gpu/internal/cli/volumes"
)

// Each flag alias belongs to exactly one flag of some command.
func TestFlagAliases(t *testing.T) {
	a := &cli.App{ProcessIO: cli.ProcessIO{Getenv: func(string) string { return "" }}}
	commands := slices.Concat(jobs.Commands(a), cluster.Commands(a), agent.DaemonCommands(a), daemons.Commands(a))
	commands = append(commands, agent.DiscoverCommand(a), volumes.Command(a), simulate.Command(a))
	have := map[string]bool{}
	for _, c := range commands {
		c.Flags().VisitAll(func(f *pflag.Flag) { have[f.Name] = true })
		for word := range cli.FlagAlternatives()[c.Name()] {
			if f := c.Flags().Lookup(word); f != nil || len(word) == 1 && c.Flags().ShorthandLookup(word) != nil {
				t.Errorf("%s has --%s: no replacement is needed", c.Name(), word)
			}
		}
	}
	leads := map[string]string{}
	for ours, theirs := range cli.FlagAliases() {
		if !have[ours] {
			t.Errorf("there is no flag --%s", ours)
		}
		for _, word := range theirs {
			if leads[word] != "" {
				t.Errorf("--%s leads to --%s and to --%s", word, ours, leads[word])
			}
			leads[word] = ours
		}
	}
}
