package executor

import (
	"context"

	"mesos-gpu/executor/docker"
	"mesos-gpu/executor/task"
)

// orphanCleaner first removes what killed executors left on this agent: their
// containers would share devices that Mesos has given to this task.
type orphanCleaner struct {
	task.Runtime
	cfg *ExecutorConfig
}

func (c *ExecutorConfig) withOrphanCleanup(r task.Runtime) task.Runtime { return orphanCleaner{r, c} }

// Start implements task.Runtime. A task without devices has nothing to share
// and starts beside a container that cannot be removed.
func (a orphanCleaner) Start(ctx context.Context, t task.TaskSpec) (task.RunningTask, error) {
	if err := docker.RemoveOrphans(ctx, a.cfg.NewDockerClient, a.cfg.ContainerLocksDir, a.cfg.Log); err != nil {
		if t.GPUs > 0 {
			return nil, err
		}
		a.cfg.Log.WithError(err).Warn("a container without an executor stays")
	}
	return a.Runtime.Start(ctx, t)
}
