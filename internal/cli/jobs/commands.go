// Package jobs has the commands about jobs: they submit, list, describe, follow and
// end jobs and schedules, read job files, and run commands in tasks. They decide
// nothing about scheduling: every request goes to the scheduler's API.
package jobs

import (
	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
)

// commands has a method for each command of this package.
type commands struct{ *cli.App }

// Commands returns the commands that submit, show and end jobs.
func Commands(app *cli.App) []*cobra.Command {
	a := &commands{app}
	return []*cobra.Command{
		a.runCommand(), a.submitCommand(), a.psCommand(), a.describeCommand(), a.logsCommand(), a.execCommand(), a.shellCommand(), a.killCommand(), a.stopCommand(), a.scaleCommand(),
		a.schedulesCommand(), a.schemaCommand(), a.marathonCommand(), a.validateCommand(), a.explainCommand(), a.eventsCommand(), a.waitCommand(),
	}
}
