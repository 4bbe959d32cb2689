package docker

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

const (
	// engineTimeout is how long the engine may be unreachable while a task
	// runs. With live-restore its containers continue.
	engineTimeout       = 2 * time.Minute
	engineRetryInterval = 500 * time.Millisecond
	// eventTimeout bounds the wait for the reason of a kill by the kernel: the
	// engine may learn of the exit first.
	eventTimeout = 2 * time.Second
)

// reconnectEngine waits for the engine to come back and follows the container
// again, running or ended. It returns an error if the engine or the container
// is gone.
func (r *runningContainer) reconnectEngine(ctx context.Context, lost error) error {
	r.cancelWait()
	r.log.WithError(lost).Warn("docker engine went away")
	r.task.ReportMessage(fmt.Sprintf("docker engine at %s went away (%s); waiting up to %s for it", r.engine.DaemonHost(), lost, engineTimeout))
	state, err := r.followContainer(ctx)
	switch {
	case ctx.Err() != nil:
		return r.removedError(ctx)
	case errdefs.IsNotFound(err):
		return fmt.Errorf("docker engine at %s restarted while container %s ran, and the container is gone: submit the task again", r.engine.DaemonHost(), r.name)
	case err != nil:
		return fmt.Errorf("docker engine at %s went away while container %s ran: %w: see why dockerd stopped on this agent, then submit the task again",
			r.engine.DaemonHost(), r.name, err)
	}
	if r.engineRestarted = !state.Running; !r.engineRestarted {
		r.log.Info("docker engine is back, the container still runs")
		r.task.ReportMessage(fmt.Sprintf("docker engine at %s is back, the task kept running", r.engine.DaemonHost()))
	}
	r.watchExit(ctx, container.WaitConditionNotRunning)
	return nil
}

// followContainer polls until the engine answers, and attaches to the output
// of a container that still runs. If that fails, it polls again: the engine may
// have gone away once more, which an error of attaching does not distinguish.
func (r *runningContainer) followContainer(ctx context.Context) (*container.State, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	for {
		c, err := r.engine.ContainerInspect(ctx, r.id)
		if err != nil && !client.IsErrConnectionFailed(err) {
			return nil, err
		}
		if err == nil && c.State.Running {
			r.output.stopCopying()
			err = r.attachOutput(ctx, r.output)
		}
		if err == nil {
			return c.State, nil
		}
		select {
		case <-time.After(engineRetryInterval):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// endCause is why a container ended, according to the engine.
type endCause struct {
	oom bool
	// signal is the signal that the engine sent ("15"); empty if it sent none.
	signal string
	// gone is set if the engine is unreachable.
	gone bool
}

// findEndCause reads the cause from the engine. The engine may notice the exit
// before the cause, so for an unexplained end it waits for events up to
// eventTimeout.
func (r *runningContainer) findEndCause(unexplained bool) endCause {
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()
	c, err := r.engine.ContainerInspect(ctx, r.id)
	if client.IsErrConnectionFailed(err) {
		return endCause{gone: true}
	}
	if err == nil && c.State != nil && c.State.OOMKilled {
		return endCause{oom: true}
	}
	options := events.ListOptions{Since: eventTime(r.startedAt), Filters: filters.NewArgs(
		filters.Arg("type", string(events.ContainerEventType)), filters.Arg("container", r.id),
		filters.Arg("event", string(events.ActionOOM)), filters.Arg("event", string(events.ActionKill)))}
	if !unexplained {
		options.Until = eventTime(time.Now()) // only events that have arrived already
	}
	var why endCause
	news, end := r.engine.Events(ctx, options)
	for {
		select {
		case m := <-news:
			if m.Action == events.ActionOOM {
				return endCause{oom: true}
			}
			why.signal = m.Actor.Attributes["signal"]
			if unexplained {
				return why
			}
		case err := <-end: // no more events, the timeout, or an unreachable engine
			why.gone = client.IsErrConnectionFailed(err)
			return why
		}
	}
}

func eventTime(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }
