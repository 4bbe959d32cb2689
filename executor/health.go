package executor

import (
	"context"
	"fmt"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

// verdict is what a health check found.
type verdict struct {
	healthy bool
	message string
	// kill says that the task has failed too often.
	kill bool
}

// checkHealth has the running task's health checked until ctx ends. A task
// whose check nobody can run would never be found healthy, so it ends.
func (l *loop) checkHealth(ctx context.Context, r task.Running) {
	h := l.info.HealthCheck
	if h == nil {
		return
	}
	tell := func(v verdict) { l.post(ctx, func() { l.judge(v) }) }
	l.work.Go(func() {
		try, err := probeOf(h, l.task.Containerizer, r)
		if err != nil {
			tell(verdict{message: "health_" + err.Error(), kill: true})
			return
		}
		watchHealth(ctx, h, try, tell)
	})
}

// watchHealth probes until ctx ends, and tells each failure, the first
// success and each that follows failures. Failures in the grace period before
// the first success do not count: the task is starting.
func watchHealth(ctx context.Context, h *mesos.HealthCheck, try probe, tell func(verdict)) {
	graceEnds := time.Now().Add(seconds(h.GetDelaySeconds()) + seconds(h.GetGracePeriodSeconds()))
	succeeded, failures := false, uint32(0)
	repeat(ctx, h, try, func(_ *mesos.CheckStatusInfo, problem error) {
		switch {
		case problem == nil:
			if !succeeded || failures > 0 {
				tell(verdict{healthy: true, message: "healthy"})
			}
			succeeded, failures = true, 0
		case succeeded || time.Now().After(graceEnds):
			failures++
			limit := h.GetConsecutiveFailures()
			tell(verdict{message: fmt.Sprintf("unhealthy, %d times of %d: %s", failures, limit, problem), kill: limit > 0 && failures >= limit})
		}
	})
}

// judge passes on how the task is, and ends one that has failed too often.
func (l *loop) judge(v verdict) {
	if l.phase != running || l.kill != nil {
		return
	}
	l.healthy = &v.healthy
	l.update(outcome{state: mesos.TASK_RUNNING, message: v.message, reason: mesos.REASON_TASK_HEALTH_CHECK_STATUS_UPDATED.Enum()})
	if v.kill {
		l.unhealthy = v.message
		l.startKill(l.grace(nil))
	}
}
