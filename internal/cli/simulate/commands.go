// Package simulate has the command that judges placement policies on recorded
// clusters. It reads records and prints results; package sim computes them.
package simulate

import (
	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
)

// commands has a method for each command of this package.
type commands struct{ *cli.App }

// Command returns the command that judges placement policies.
func Command(app *cli.App) *cobra.Command {
	a := &commands{app}
	return a.simulateCommand()
}
