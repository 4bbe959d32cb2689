package control

import (
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon/api"
)

// healthHistory contains the results of an instance's health checks since this scheduler
// leads. The executor reports the first success, each failure, and the first success after a
// failure; the times are those at which the leader learned of them.
type healthHistory struct {
	firstSuccess, lastSuccess, lastFailure time.Time
	// alive is the last result. failure is the last failure; its count is 0 after a success.
	alive   bool
	failure job.HealthFailure
}

// noteHealth adds the current health of an app's instances to their histories, and forgets
// instances that have ended.
func (l *controlLoop) noteHealth(app string) {
	for _, j := range l.cluster.ListGroupJobs(app) {
		if _, _, ours := l.appOf(j.Spec); !ours || j.Spec.HealthCheck == nil {
			continue
		}
		for i := range j.Tasks {
			t := &j.Tasks[i]
			switch {
			case !t.State.IsLive():
				delete(l.health, t.ID)
			case t.Healthy != nil:
				if l.health[t.ID] == nil {
					l.health[t.ID] = &healthHistory{}
				}
				l.health[t.ID].add(t, l.cfg.Clock())
			}
		}
	}
}

func (h *healthHistory) add(t *job.Task, now time.Time) {
	if *t.Healthy {
		if !h.alive {
			h.alive, h.failure.Failures, h.lastSuccess = true, 0, now
		}
		if h.firstSuccess.IsZero() {
			h.firstSuccess = now
		}
		return
	}
	reported, first := t.HealthFailure, h.alive || h.lastFailure.IsZero()
	switch {
	case reported != nil && (first || *reported != h.failure):
		h.failure = *reported
	case first: // a fault of a device makes the instance unhealthy too
		h.failure = job.HealthFailure{Failures: 1, Cause: t.Message}
	default:
		return // another change of the task
	}
	h.alive, h.lastFailure = false, now
}

// healthResults returns the result of an instance's health checks, which the executor
// combines. It is empty before the first result.
func (l *controlLoop) healthResults(t *job.Task) []api.HealthResult {
	if t.Healthy == nil {
		return nil
	}
	r := api.HealthResult{Alive: *t.Healthy, InstanceID: t.ID}
	if h := l.health[t.ID]; h != nil {
		r.ConsecutiveFailures, r.LastFailureCause = h.failure.Failures, h.failure.Cause
		r.FirstSuccess, r.LastSuccess, r.LastFailure = api.Time{Time: h.firstSuccess}, api.Time{Time: h.lastSuccess}, api.Time{Time: h.lastFailure}
	}
	return []api.HealthResult{r}
}

// killedForHealth reports whether the executor has ended a task because its health checks
// failed.
func killedForHealth(t *job.Task) bool {
	return t.State == job.Killed && t.KillRequested.IsZero() && t.Healthy != nil && !*t.Healthy
}
