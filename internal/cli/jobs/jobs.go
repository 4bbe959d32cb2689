// Package jobs provides the commands about jobs. They submit, list, describe, follow
// and end jobs and schedules, read job files, and run commands in tasks. They make no
// scheduling decisions: every request goes to the scheduler's API.
package jobs

import "mesos-gpu/internal/cli"

// jobCommands has one method for each command of this package.
type jobCommands struct{ *cli.App }
