package cluster

import (
	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
)

// Commands returns the commands that show agents, GPUs, roles and the queue, and the
// operator commands that change them.
func Commands(app *cli.App) []*cobra.Command {
	a := &clusterCommands{app}
	return append(a.cordonCommands(), a.agentsCommand(), a.gpusCommand(), a.queueCommand(), a.quotaCommand(), a.topCommand(), a.usageCommand(), a.tokenCommand(), a.whoAmICommand())
}
