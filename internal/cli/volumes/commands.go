// Package volumes provides the commands about driver volumes: create, check, repair,
// remove and share them. Package volumemgr implements the operations.
package volumes

import (
	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
)

// volumeCommands has one method for each command of this package.
type volumeCommands struct{ *cli.App }

// Command returns the commands about driver volumes.
func Command(app *cli.App) *cobra.Command {
	a := &volumeCommands{app}
	return a.volumeCommand()
}
