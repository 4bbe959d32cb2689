package jobs

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mesos-gpu/internal/cli"
)

// The help of run and notebook has each flag in one group.
func TestFlagsAreInOneGroup(t *testing.T) {
	groups := map[string]int{}
	for _, group := range jobFlagGroups() {
		for _, name := range group.names {
			groups[name]++
		}
	}
	a := &jobCommands{App: &cli.App{}}
	known := map[string]bool{}
	for _, c := range []*cobra.Command{a.runCommand(), a.notebookCommand()} {
		c.InitDefaultHelpFlag()
		help := c.UsageString()
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			known[f.Name] = true
			if groups[f.Name] != 1 || strings.Count(help, "--"+f.Name+" ") < 1 {
				t.Errorf("--%s is in %d groups of flag_groups.go", f.Name, groups[f.Name])
			}
		})
	}
	for name := range groups {
		if !known[name] {
			t.Errorf("flag_groups.go has --%s, which no command has", name)
		}
	}
}
