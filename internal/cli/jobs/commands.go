package jobs

import (
	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
)

// Commands returns the commands that submit, show and end jobs.
func Commands(app *cli.App) []*cobra.Command {
	a := &jobCommands{app}
	return []*cobra.Command{
		a.runCommand(), a.submitCommand(), a.applyCommand(), a.diffCommand(), a.getCommand(), a.rerunCommand(),
		a.psCommand(), a.describeCommand(), a.logsCommand(), a.execCommand(), a.shellCommand(), a.copyCommand(),
		a.listFilesCommand(), a.killCommand(), a.stopCommand(), a.scaleCommand(), a.serviceConfigCommand(),
		a.editCommand(), a.holdCommand(), a.releaseCommand(), a.requeueCommand(), a.holdsCommand(),
		a.notificationsCommand(), a.attachCommand(), a.portForwardCommand(), a.notebookCommand(),
		a.artifactsCommand(),
		a.schedulesCommand(), a.schemaCommand(), a.marathonCommand(), a.validateCommand(), a.explainCommand(), a.eventsCommand(), a.waitCommand(),
	}
}
