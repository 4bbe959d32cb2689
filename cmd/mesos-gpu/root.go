package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/cli/agent"
	"mesos-gpu/internal/cli/cluster"
	"mesos-gpu/internal/cli/daemons"
	"mesos-gpu/internal/cli/jobs"
	"mesos-gpu/internal/cli/setup"
	"mesos-gpu/internal/cli/simulate"
	"mesos-gpu/internal/cli/volumes"
)

func newRoot(s cli.ProcessIO) *cobra.Command {
	a := &cli.App{ProcessIO: s, Version: version}
	root := &cobra.Command{
		Use:           "mesos-gpu",
		Short:         "GPU scheduling for Apache Mesos",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cli.RejectUnknownCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(s.Stdin)
	root.SetOut(s.Stdout)
	root.SetErr(s.Stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if got := c.Flags().Args(); c.HasSubCommands() && len(got) > 0 {
			return cli.RejectUnknownCommand(c, got) // the flag belongs to a command that does not exist
		}
		if next := cli.SuggestFlag(c, err); next != "" {
			return &cli.UsageError{Err: fmt.Errorf("%w: %s", err, next)}
		}
		return &cli.UsageError{Err: fmt.Errorf("%w: see %s --help", cli.DescribeFlagError(err), c.CommandPath())}
	})
	api := s.Getenv("MESOS_GPU_API")
	if api == "" {
		api = cli.DefaultAPI
	}
	root.PersistentFlags().StringVar(&a.APIAddress, "api", api,
		"address of the scheduler, or several, comma-separated; or set MESOS_GPU_API; "+cli.DefaultSocket+" if it exists")
	if _, err := os.Stat(cli.DefaultSocket); err == nil && s.Getenv("MESOS_GPU_API") == "" {
		a.APIAddress = "unix://" + cli.DefaultSocket
	}
	a.Credential.Register(root.PersistentFlags(), s.Getenv)
	a.RegisterContext(root.PersistentFlags())
	root.AddGroup(&cobra.Group{ID: "jobs", Title: "Jobs:"}, &cobra.Group{ID: "cluster", Title: "Cluster:"}, &cobra.Group{ID: "daemons", Title: "Daemons:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("jobs", jobs.Commands(a)...)
	add("cluster", append(cluster.Commands(a), agent.DiscoverCommand(a), volumes.Command(a), simulate.Command(a), setup.Command(a))...)
	add("daemons", append(agent.DaemonCommands(a), daemons.Commands(a)...)...)
	root.AddCommand(versionCommand(a), daemons.ContainerInitCommand(), manCommand())
	for _, c := range root.Commands() {
		c.SuggestFor = cli.CommandAliases()[c.Name()]
	}
	cli.AcceptDurations(root)
	a.AddCompletions(root)
	a.SuggestNames(root)
	addExamples(root)
	cli.RejectUnknownHelp(root)
	cli.RejectUnknownShell(root)
	return root
}
