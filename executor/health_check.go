package executor

import (
	"context"
	"fmt"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// healthResult is the result of one probe of a health check.
type healthResult struct {
	healthy bool
	message string
	// failures counts the failed probes in a row, this one included. cause is
	// why this one failed.
	failures int
	cause    string
	// killTask is set when the check has failed as often as its limit.
	killTask bool
}

// startHealthChecks probes the running task by each of its health checks until
// ctx ends. A check that cannot run kills the task, which could never become
// healthy.
func (l *taskLoop) startHealthChecks(ctx context.Context, r task.RunningTask) {
	for i, h := range l.state.task.HealthChecks {
		report := func(v healthResult) { l.postAction(ctx, func() { l.state.recordHealth(i, v) }) }
		l.goroutines.Go(func() {
			try, err := newProbe(h, l.state.task.Containerizer, r)
			if err != nil {
				report(healthResult{message: "health_" + err.Error(), failures: 1, cause: err.Error(), killTask: true})
				return
			}
			watchHealth(ctx, h, try, report)
		})
	}
}

// watchHealth probes until ctx ends. It reports each failure, the first
// success, and each success after a failure. Failures in the grace period
// before the first success do not count, because the task is still starting.
func watchHealth(ctx context.Context, h *mesos.HealthCheck, try probeFunc, report func(healthResult)) {
	graceEnds := time.Now().Add(secondsDuration(h.GetDelaySeconds()) + secondsDuration(h.GetGracePeriodSeconds()))
	succeeded, failures := false, uint32(0)
	repeatProbe(ctx, h, try, func(_ *mesos.CheckStatusInfo, problem error) {
		switch {
		case problem == nil:
			if !succeeded || failures > 0 {
				report(healthResult{healthy: true, message: "healthy"})
			}
			succeeded, failures = true, 0
		case succeeded || time.Now().After(graceEnds):
			failures++
			limit := h.GetConsecutiveFailures()
			report(healthResult{
				message:  fmt.Sprintf("unhealthy, %d times of %d: %s", failures, limit, problem),
				failures: int(failures), cause: problem.Error(), killTask: limit > 0 && failures >= limit,
			})
		}
	})
}

// recordHealth stores the result of one health check and sends a status
// update. A success is sent only once all other checks have succeeded too. A
// result with killTask kills the task.
func (s *taskState) recordHealth(check int, v healthResult) {
	if s.phase != phaseRunning || s.kill != nil {
		return
	}
	if n := len(s.healthByCheck); n > 1 && !v.healthy {
		v.message = fmt.Sprintf("health check %d of %d: %s", check+1, n, v.message)
	}
	s.healthByCheck[check] = &v.healthy
	if v.healthy && !areAllHealthy(s.healthByCheck) {
		return
	}
	s.healthy = &v.healthy
	o := statusContent{state: mesos.TASK_RUNNING, message: v.message, reason: mesos.REASON_TASK_HEALTH_CHECK_STATUS_UPDATED.Enum()}
	if !v.healthy {
		o.healthFailure = &job.HealthFailure{Check: check + 1, Failures: v.failures, Cause: v.cause}
	}
	s.sendUpdate(o)
	if v.killTask {
		s.unhealthy = v.message
		s.startKill(s.task.KillGrace)
	}
}

// areAllHealthy reports whether every check has succeeded.
func areAllHealthy(checks []*bool) bool {
	return !slices.ContainsFunc(checks, func(healthy *bool) bool { return healthy == nil || !*healthy })
}
