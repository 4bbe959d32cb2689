// Package jobs provides the commands about jobs. They submit, list, describe, follow
// and end jobs and schedules, read job files, and run commands in tasks. They make no
// scheduling decisions: every request goes to the scheduler's API.
package jobs

import (
	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
)

// jobCommands has one method for each command of this package.
type jobCommands struct{ *cli.App }

// Commands returns the commands that submit, show and end jobs.
func Commands(app *cli.App) []*cobra.Command {
	a := &jobCommands{app}
	return []*cobra.Command{
		a.runCommand(), a.submitCommand(), a.psCommand(), a.describeCommand(), a.logsCommand(), a.execCommand(), a.shellCommand(), a.killCommand(), a.stopCommand(), a.scaleCommand(),
		a.schedulesCommand(), a.schemaCommand(), a.marathonCommand(), a.validateCommand(), a.explainCommand(), a.eventsCommand(), a.waitCommand(),
	}
}
