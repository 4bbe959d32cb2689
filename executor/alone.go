package executor

import (
	"context"

	"mesos-gpu/executor/docker"
	"mesos-gpu/executor/task"
)

// alone first removes what killed executors left on this agent: their
// containers would share devices that Mesos has given to this task.
type alone struct {
	task.Runtime
	cfg *Config
}

func (c *Config) alone(r task.Runtime) task.Runtime { return alone{r, c} }

// Start implements task.Runtime. A task without devices has nothing to share
// and starts beside a container that cannot be removed.
func (a alone) Start(ctx context.Context, t task.Task) (task.Running, error) {
	if err := docker.Sweep(ctx, a.cfg.Docker, a.cfg.ClaimsDir, a.cfg.Log); err != nil {
		if t.GPUs > 0 {
			return nil, err
		}
		a.cfg.Log.WithError(err).Warn("a container without an executor stays")
	}
	return a.Runtime.Start(ctx, t)
}
