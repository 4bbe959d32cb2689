package executor

import (
	"context"
	"fmt"
	"slices"
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

// checkHealth has the running task's health checked until ctx ends, by each of
// its checks at its own times. A task whose check nobody can run would never
// be found healthy, so it ends.
func (l *loop) checkHealth(ctx context.Context, r task.Running) {
	l.health = make([]*bool, len(l.task.HealthChecks))
	for i, h := range l.task.HealthChecks {
		tell := func(v verdict) { l.post(ctx, func() { l.judge(i, v) }) }
		l.work.Go(func() {
			try, err := probeOf(h, l.task.Containerizer, r)
			if err != nil {
				tell(verdict{message: "health_" + err.Error(), kill: true})
				return
			}
			watchHealth(ctx, h, try, tell)
		})
	}
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

// judge passes on how the task is by one of its checks, and ends one that has
// failed it too often. That one check succeeds says nothing while another has
// no answer yet, or has failed.
func (l *loop) judge(check int, v verdict) {
	if l.phase != running || l.kill != nil {
		return
	}
	if n := len(l.health); n > 1 && !v.healthy {
		v.message = fmt.Sprintf("health check %d of %d: %s", check+1, n, v.message)
	}
	l.health[check] = &v.healthy
	if v.healthy && !wellBy(l.health) {
		return
	}
	l.healthy = &v.healthy
	l.update(outcome{state: mesos.TASK_RUNNING, message: v.message, reason: mesos.REASON_TASK_HEALTH_CHECK_STATUS_UPDATED.Enum()})
	if v.kill {
		l.unhealthy = v.message
		l.startKill(l.grace(nil))
	}
}

// wellBy reports whether each check has found the task healthy.
func wellBy(checks []*bool) bool {
	return !slices.ContainsFunc(checks, func(healthy *bool) bool { return healthy == nil || !*healthy })
}
