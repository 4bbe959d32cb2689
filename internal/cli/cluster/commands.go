// Package cluster provides the commands about the cluster: agents, GPUs, usage, the
// queue and quotas. They read and change state only through the scheduler's API.
package cluster

import (
	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
)

// clusterCommands has one method for each command of this package.
type clusterCommands struct{ *cli.App }

// Commands returns the commands that show agents, GPUs, roles and the queue, and the
// operator commands that change them.
func Commands(app *cli.App) []*cobra.Command {
	a := &clusterCommands{app}
	return append(a.cordonCommands(), a.agentsCommand(), a.gpusCommand(), a.queueCommand(), a.quotaCommand(), a.topCommand(), a.tokenCommand())
}
