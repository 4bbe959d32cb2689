// Package cluster has the commands about the cluster: agents, GPUs, their use, the
// queue and quotas. They read and change state through the scheduler's API only.
package cluster

import (
	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
)

// commands has a method for each command of this package.
type commands struct{ *cli.App }

// Commands returns the commands that show agents, GPUs, roles and the
// queue, and those by which operators change them.
func Commands(app *cli.App) []*cobra.Command {
	a := &commands{app}
	return append(a.cordonCommands(), a.agentsCommand(), a.gpusCommand(), a.queueCommand(), a.quotaCommand(), a.topCommand(), a.tokenCommand())
}
