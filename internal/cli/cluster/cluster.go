// Package cluster provides the commands about the cluster: agents, GPUs, usage, the
// queue and quotas. They read and change state only through the scheduler's API.
package cluster

import "mesos-gpu/internal/cli"

// clusterCommands has one method for each command of this package.
type clusterCommands struct{ *cli.App }
