package agent

import (
	"context"
	"fmt"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
)

// Join takes the agent to a master, a new one or the one that gave it up, with
// all that it runs. It tells that master again what nobody has acknowledged.
// Run must have registered, and must still run.
func (a *Agent) Join(ctx context.Context, m link.Master) error {
	done := make(chan error, 1)
	a.loop.post(func() { done <- a.join(m) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *Agent) join(m link.Master) error {
	if _, err := m.Register(a.info, a.total(), a.running(), fromMaster{a}); err != nil {
		return fmt.Errorf("join master: %w", err)
	}
	a.cfg.Master = m
	a.forward(a.streams.Unacknowledged(now()))
	return nil
}

// running lists the executors that have not ended, with tasks whose end the
// framework has yet to acknowledge.
func (a *Agent) running() []link.Running {
	var all []link.Running
	for e := range a.executors() {
		r := link.Running{Framework: e.framework.info, Executor: e.info}
		for _, t := range e.tasks {
			if t.live() || !t.acked {
				r.Tasks = append(r.Tasks, t.info)
			}
		}
		all = append(all, r)
	}
	return all
}

// total is what the agent and its providers have.
func (a *Agent) total() []mesos.Resource {
	return append(slices.Clone(a.cfg.Resources), a.providers.Resources()...)
}
