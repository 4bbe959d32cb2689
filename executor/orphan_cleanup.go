package executor

import (
	"context"

	"mesos-gpu/executor/docker"
	"mesos-gpu/executor/task"
)

// orphanCleaner removes the containers of killed executors on this agent
// before it starts a task. They could use devices that Mesos has allocated to
// this task.
type orphanCleaner struct {
	task.Runtime
	cfg *ExecutorConfig
}

func (c *ExecutorConfig) withOrphanCleanup(r task.Runtime) task.Runtime { return orphanCleaner{r, c} }

// Start implements task.Runtime. If a container cannot be removed, a task with
// GPUs fails; a task without GPUs starts anyway.
func (a orphanCleaner) Start(ctx context.Context, t task.TaskSpec) (task.RunningTask, error) {
	if err := docker.RemoveOrphans(ctx, a.cfg.NewDockerClient, a.cfg.containerLocksDir, a.cfg.Log); err != nil {
		if t.GPUs > 0 {
			return nil, err
		}
		a.cfg.Log.WithError(err).Warn("cannot remove a container without an executor")
	}
	return a.Runtime.Start(ctx, t)
}
