package agent

import (
	"context"
	"fmt"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
)

// Join registers the agent, with everything that it runs, with a new master or
// one that removed it, and sends that master every unacknowledged status again.
// Run must have registered, and must still run.
func (a *EmbeddedAgent) Join(ctx context.Context, m link.MasterLink) error {
	done := make(chan error, 1)
	a.loop.post(func() { done <- a.joinMaster(m) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *EmbeddedAgent) joinMaster(m link.MasterLink) error {
	if _, err := m.Register(a.info, a.totalResources(), a.runningExecutors(), masterCalls{a}); err != nil {
		return fmt.Errorf("join master: %w", err)
	}
	a.cfg.Master = m
	a.forwardStatuses(a.streams.Unacknowledged(now()))
	return nil
}

// runningExecutors lists the executors that have not ended, with tasks whose end the
// framework has yet to acknowledge.
func (a *EmbeddedAgent) runningExecutors() []link.RunningExecutor {
	var all []link.RunningExecutor
	for e := range a.liveExecutors() {
		r := link.RunningExecutor{Framework: e.framework.info, Executor: e.info}
		for _, t := range e.tasks {
			if t.isLive() || !t.acked {
				r.Tasks = append(r.Tasks, t.info)
			}
		}
		all = append(all, r)
	}
	return all
}

// totalResources is what the agent and its providers have.
func (a *EmbeddedAgent) totalResources() []mesos.Resource {
	return append(slices.Clone(a.cfg.Resources), a.providers.Resources()...)
}
