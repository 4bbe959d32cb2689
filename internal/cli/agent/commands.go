// Package agent provides the commands that run on an agent's machine: the agent
// daemon, the executor, and the commands that show and change this machine's GPUs
// through the daemon's socket. It converts flags to configurations; the daemons decide.
package agent

import (
	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
)

// agentCommands has one method for each command of this package.
type agentCommands struct{ *cli.App }

// DaemonCommands returns the daemons of an agent's machine: agent and executor.
func DaemonCommands(app *cli.App) []*cobra.Command {
	a := &agentCommands{app}
	return []*cobra.Command{a.agentCommand(), a.executorCommand()}
}

// DiscoverCommand returns the command that shows this machine's GPUs.
func DiscoverCommand(app *cli.App) *cobra.Command {
	a := &agentCommands{app}
	return a.discoverCommand()
}
