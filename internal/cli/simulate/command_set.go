// Package simulate provides the command that evaluates placement policies on recorded
// clusters. It reads traces and prints results; package sim computes them.
package simulate

import "mesos-gpu/internal/cli"

// simulateCommands has one method for each command of this package.
type simulateCommands struct{ *cli.App }
