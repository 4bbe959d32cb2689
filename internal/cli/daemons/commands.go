// Package daemons provides the commands that run a scheduler: against a Mesos master,
// or with an embedded cluster on one machine. It converts flags to configurations.
package daemons

import (
	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
)

// daemonCommands has one method for each command of this package.
type daemonCommands struct{ *cli.App }

// Commands returns the commands that run a scheduler: against a Mesos
// master, and with an embedded cluster.
func Commands(app *cli.App) []*cobra.Command {
	a := &daemonCommands{app}
	return []*cobra.Command{a.localCommand(), a.schedulerCommand()}
}
