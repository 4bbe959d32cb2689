package control

import (
	"regexp"
	"strconv"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon/api"
)

// healthHistory is what the health checks of an instance have reported since this scheduler
// leads. The executor reports the first success, each failure, and the first success after a
// failure; the times are those at which the leader learned of them.
type healthHistory struct {
	firstSuccess, lastSuccess, lastFailure time.Time
	// alive is the last result, cause that of the last failure, and failures the number of
	// failures since the last success.
	alive    bool
	cause    string
	failures int
	// message is that of the last failure, by which a repeated report is recognized.
	message string
}

// healthFailure matches the executor's message of a failed health check.
var healthFailure = regexp.MustCompile(`^(?:health check \d+ of \d+: )?unhealthy, (\d+) times of \d+: ((?s).*)$`)

// noteHealth adds the current health of an app's instances to their histories, and forgets
// instances that have ended.
func (k *controlLoop) noteHealth(app string) {
	for _, j := range k.cluster.ListGroupJobs(app) {
		if _, _, ours := k.appOf(&j.Spec); !ours || j.Spec.HealthCheck == nil {
			continue
		}
		for i := range j.Tasks {
			t := &j.Tasks[i]
			switch {
			case !t.State.IsLive():
				delete(k.health, t.ID)
			case t.Healthy != nil:
				if k.health[t.ID] == nil {
					k.health[t.ID] = &healthHistory{}
				}
				k.health[t.ID].add(t, k.cfg.Clock())
			}
		}
	}
}

func (h *healthHistory) add(t *job.Task, now time.Time) {
	if *t.Healthy {
		if !h.alive {
			h.alive, h.failures, h.message, h.lastSuccess = true, 0, "", now
		}
		if h.firstSuccess.IsZero() {
			h.firstSuccess = now
		}
		return
	}
	found, first := healthFailure.FindStringSubmatch(t.Message), h.alive || h.lastFailure.IsZero()
	switch {
	case t.Message == h.message && !first:
		return
	case found != nil:
		h.failures, _ = strconv.Atoi(found[1]) // the expression matches digits only
		h.cause = found[2]
	case first: // a fault of a device makes the instance unhealthy too
		h.failures, h.cause = 1, t.Message
	default:
		return // a message about something else
	}
	h.alive, h.message, h.lastFailure = false, t.Message, now
}

// healthResults returns the result of an instance's health checks, which the executor
// combines. It is empty before the first result.
func (k *controlLoop) healthResults(t *job.Task) []api.HealthResult {
	if t.Healthy == nil {
		return nil
	}
	r := api.HealthResult{Alive: *t.Healthy, InstanceID: t.ID}
	if h := k.health[t.ID]; h != nil {
		r.ConsecutiveFailures, r.LastFailureCause = h.failures, h.cause
		r.FirstSuccess, r.LastSuccess, r.LastFailure = api.Time{Time: h.firstSuccess}, api.Time{Time: h.lastSuccess}, api.Time{Time: h.lastFailure}
	}
	return []api.HealthResult{r}
}

// killedForHealth reports whether the executor has ended a task because its health checks
// failed.
func killedForHealth(t *job.Task) bool {
	return t.State == job.Killed && t.KillRequested.IsZero() && t.Healthy != nil && !*t.Healthy
}
