package jobs

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroup is a part of the flags of run, under a title in its help.
type flagGroup struct {
	title string
	names []string
}

// jobFlagGroups returns the groups of the flags that describe a job, in the order of the help. Other flags follow the last
// group.
func jobFlagGroups() []flagGroup {
	return []flagGroup{
		{"This command", []string{"command", "detach", "detach-on-interrupt", "help", "local-port", "stdin", "tty", "verbose"}},
		{"Job", []string{"after", "label", "max-parallel", "name", "tasks"}},
		{"GPUs", []string{
			"gpu-cores", "gpu-cuda", "gpu-driver", "gpu-mem", "gpu-memory", "gpu-topology", "gpu-type", "gpu-uuid",
			"gpus", "not-gpu-type", "not-gpu-uuid",
		}},
		{"Other resources and agents", []string{"constraint", "cpus", "device", "disk", "mem", "shm-size", "ulimit"}},
		{"Command and files", []string{"chdir", "checkpoint-dir", "env", "env-file", "secret", "secret-file", "user", "volume", "workdir"}},
		{"Container", []string{"container", "entrypoint", "image", "ipc", "network", "ports", "publish", "pull", "pull-secret"}},
		{"Scheduling", []string{"gang", "guaranteed", "max-wait", "min-run-time", "preempt-after", "preemptible", "priority", "role", "run-time"}},
		{"End and retries", []string{"idle", "kill-grace", "notify", "on-timeout", "restart", "retries", "timeout"}},
		{"Health check", []string{
			"health-cmd", "health-delay", "health-http", "health-interval", "health-retries", "health-start-period",
			"health-tcp", "health-timeout",
		}},
	}
}

// groupFlags makes the help of a command list its flags in groups.
func groupFlags(c *cobra.Command) {
	c.SetUsageFunc(func(c *cobra.Command) error {
		out := c.OutOrStderr()
		fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
		all := c.LocalFlags()
		for _, group := range jobFlagGroups() {
			set := pflag.NewFlagSet("", pflag.ContinueOnError)
			for _, name := range group.names {
				if f := all.Lookup(name); f != nil {
					set.AddFlag(f)
				}
			}
			printFlags(out, group.title, set)
		}
		printFlags(out, "Other", ungroupedFlags(all))
		printFlags(out, "Global", c.InheritedFlags())
		return nil
	})
}

func printFlags(out io.Writer, title string, set *pflag.FlagSet) {
	if set.HasAvailableFlags() {
		fmt.Fprintf(out, "\n%s:\n%s", title, set.FlagUsages())
	}
}

// ungroupedFlags returns the flags that are in no group.
func ungroupedFlags(all *pflag.FlagSet) *pflag.FlagSet {
	grouped := map[string]bool{}
	for _, group := range jobFlagGroups() {
		for _, name := range group.names {
			grouped[name] = true
		}
	}
	rest := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.VisitAll(func(f *pflag.Flag) {
		if !grouped[f.Name] {
			rest.AddFlag(f)
		}
	})
	return rest
}
