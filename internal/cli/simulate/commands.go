// Package simulate provides the command that evaluates placement policies on recorded
// clusters. It reads traces and prints results; package sim computes them.
package simulate

import (
	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
)

// simulateCommands has one method for each command of this package.
type simulateCommands struct{ *cli.App }

// Command returns the command that evaluates placement policies.
func Command(app *cli.App) *cobra.Command {
	a := &simulateCommands{app}
	return a.simulateCommand()
}
