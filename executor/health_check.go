package executor

import (
	"context"
	"fmt"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

// healthResult is what a health check found.
type healthResult struct {
	healthy bool
	message string
	// killTask says that the task has failed too often.
	killTask bool
}

// startHealthChecks has the running task's health checked until ctx ends, by each of
// its checks at its own times. A task whose check nobody can run would never
// be found healthy, so it ends.
func (l *taskLoop) startHealthChecks(ctx context.Context, r task.RunningTask) {
	l.healthByCheck = make([]*bool, len(l.task.HealthChecks))
	for i, h := range l.task.HealthChecks {
		tell := func(v healthResult) { l.postAction(ctx, func() { l.recordHealth(i, v) }) }
		l.goroutines.Go(func() {
			try, err := newProbe(h, l.task.Containerizer, r)
			if err != nil {
				tell(healthResult{message: "health_" + err.Error(), killTask: true})
				return
			}
			watchHealth(ctx, h, try, tell)
		})
	}
}

// watchHealth probes until ctx ends, and tells each failure, the first
// success and each that follows failures. Failures in the grace period before
// the first success do not count: the task is starting.
func watchHealth(ctx context.Context, h *mesos.HealthCheck, try probeFunc, tell func(healthResult)) {
	graceEnds := time.Now().Add(secondsDuration(h.GetDelaySeconds()) + secondsDuration(h.GetGracePeriodSeconds()))
	succeeded, failures := false, uint32(0)
	repeatProbe(ctx, h, try, func(_ *mesos.CheckStatusInfo, problem error) {
		switch {
		case problem == nil:
			if !succeeded || failures > 0 {
				tell(healthResult{healthy: true, message: "healthy"})
			}
			succeeded, failures = true, 0
		case succeeded || time.Now().After(graceEnds):
			failures++
			limit := h.GetConsecutiveFailures()
			tell(healthResult{message: fmt.Sprintf("unhealthy, %d times of %d: %s", failures, limit, problem), killTask: limit > 0 && failures >= limit})
		}
	})
}

// recordHealth passes on how the task is by one of its checks, and ends one that has
// failed it too often. That one check succeeds says nothing while another has
// no answer yet, or has failed.
func (l *taskLoop) recordHealth(check int, v healthResult) {
	if l.phase != phaseRunning || l.kill != nil {
		return
	}
	if n := len(l.healthByCheck); n > 1 && !v.healthy {
		v.message = fmt.Sprintf("health check %d of %d: %s", check+1, n, v.message)
	}
	l.healthByCheck[check] = &v.healthy
	if v.healthy && !areAllHealthy(l.healthByCheck) {
		return
	}
	l.healthy = &v.healthy
	l.sendUpdate(statusContent{state: mesos.TASK_RUNNING, message: v.message, reason: mesos.REASON_TASK_HEALTH_CHECK_STATUS_UPDATED.Enum()})
	if v.killTask {
		l.unhealthy = v.message
		l.startKill(l.killGrace(nil))
	}
}

// areAllHealthy reports whether each check has found the task healthy.
func areAllHealthy(checks []*bool) bool {
	return !slices.ContainsFunc(checks, func(healthy *bool) bool { return healthy == nil || !*healthy })
}
