package agent

import (
	"context"
	"fmt"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
)

// Join registers the agent and its running executors with a new master, or with
// a master that removed it, and resends every unacknowledged status. It may be
// called only between the first registration and the return of Run.
func (a *EmbeddedAgent) Join(ctx context.Context, m link.MasterLink) error {
	return doOnLoop(ctx, a.loop, func() error { return a.joinMaster(m) })
}

func (a *EmbeddedAgent) joinMaster(m link.MasterLink) error {
	if _, err := m.Register(a.info, a.totalResources(), a.runningExecutors(), masterCalls{a}); err != nil {
		return fmt.Errorf("join master: %w", err)
	}
	a.cfg.Master = m
	a.forwardStatuses(a.streams.Unacknowledged(now()))
	return nil
}

// runningExecutors returns the executors that have not ended, and those that have
// tasks whose terminal status the framework has not acknowledged. Launches that
// have arrived and were not handled are missing.
func (a *EmbeddedAgent) runningExecutors() []link.RunningExecutor {
	var all []link.RunningExecutor
	for _, e := range append(a.sortedExecutors(), a.completed...) {
		r := link.RunningExecutor{Framework: e.framework.info, Executor: e.info, Ended: e.isCompleted(), States: map[string]mesos.TaskState{}}
		if e.supplied {
			r.Executor.Command = nil
		}
		for _, t := range e.tasks {
			if a.isIncomplete(e, t) {
				r.Tasks = append(r.Tasks, t.info)
				r.States[t.info.TaskID.Value] = t.stored
			}
		}
		if !r.Ended || len(r.Tasks) > 0 {
			all = append(all, r)
		}
	}
	return all
}

// totalResources returns the resources of the agent and its providers.
func (a *EmbeddedAgent) totalResources() []mesos.Resource {
	return append(slices.Clone(a.cfg.Resources), a.providers.Resources()...)
}
