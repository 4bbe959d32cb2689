// Package pending explains why jobs wait: deferrals, shortages of resources, quotas, and what machines would have to be
// added. It changes nothing and places nothing.
package pending

import (
	"fmt"
	"strings"
	"time"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/job"
)

// DeferralReason names the condition that a task waits for before it may be placed.
type DeferralReason string

const (
	// DeferredByBackoff: the task, or another one of its gang, pauses after a failure.
	DeferredByBackoff DeferralReason = "pause"
	// DeferredByDependency: other jobs must end first.
	DeferredByDependency DeferralReason = "after"
	// DeferredByGang: tasks of its gang still hold places, and a gang starts together.
	DeferredByGang DeferralReason = "gang"
	// DeferredByMaxParallel: as many tasks of its job hold places as its max_parallel allows.
	DeferredByMaxParallel DeferralReason = "max_parallel"
	// DeferredByHold: the job, its owner or its role is held.
	DeferredByHold DeferralReason = "hold"
)

// AllDeferralReasons returns all deferral reasons.
func AllDeferralReasons() []DeferralReason {
	return []DeferralReason{DeferredByBackoff, DeferredByDependency, DeferredByGang, DeferredByMaxParallel, DeferredByHold}
}

// CountReady returns how many tasks of a job may be placed now; held reports that the job is on hold. It calls deferred, which may be nil, with each reason
// for which other tasks wait. since is when the first ready task began to wait for a place, for a gang the last one. It
// is zero under max_parallel, where a task may have become ready just now.
func CountReady(now time.Time, j *job.Job, held bool, deferred func(why DeferralReason, tasks int)) (ready int, since time.Time) {
	w := countWaiting(now, j)
	report := func(why DeferralReason, tasks int) {
		if tasks > 0 && deferred != nil {
			deferred(why, tasks)
		}
	}
	limit := j.Spec.MaxParallel
	switch {
	case held:
		report(DeferredByHold, w.ready+w.paused)
	case len(j.Spec.UnmetDependencies()) > 0:
		report(DeferredByDependency, w.ready+w.paused)
	case j.Spec.Gang && w.placed > 0:
		report(DeferredByGang, w.ready+w.paused)
	case j.Spec.Gang && w.paused > 0:
		report(DeferredByBackoff, w.ready+w.paused)
	case limit > 0:
		ready = min(w.ready, max(limit-w.placed, 0))
		report(DeferredByBackoff, w.paused)
		report(DeferredByMaxParallel, w.ready-ready)
	default:
		report(DeferredByBackoff, w.paused)
		return w.ready, w.since
	}
	return ready, time.Time{}
}

// taskCounts counts the tasks of a job that hold places, that pause, and that wait for a place only. since is when the
// first of the latter began to wait, for a gang the last one. nextTry is when the first pause ends.
type taskCounts struct {
	placed, paused, ready int
	since, nextTry        time.Time
}

func countWaiting(now time.Time, j *job.Job) (c taskCounts) {
	for i := range j.Tasks {
		switch t := &j.Tasks[i]; {
		case t.State.IsPlaced():
			c.placed++
		case t.State != job.Waiting:
		case t.NotBefore.After(now):
			c.paused++
			if c.nextTry.IsZero() || t.NotBefore.Before(c.nextTry) {
				c.nextTry = t.NotBefore
			}
		default:
			c.ready++
			if at := t.WaitingSince(); c.since.IsZero() || at.Before(c.since) != j.Spec.Gang {
				c.since = at
			}
		}
	}
	return c
}

// ExplainDeferral explains why none of a job's waiting tasks may be placed now. stateOf returns the state of another
// job, or of a run NAME@RUN, or false if it does not exist.
func ExplainDeferral(now time.Time, j *job.Job, stateOf func(name string) (job.State, bool)) placement.PendingCause {
	if open := j.Spec.UnmetDependencies(); len(open) > 0 {
		return explainDependencies(open, stateOf)
	}
	w, verb := countWaiting(now, j), "hold"
	if w.placed == 1 {
		verb = "holds"
	}
	if limit := j.Spec.MaxParallel; limit > 0 && w.placed >= limit {
		return placement.PendingCause{
			Needs:     "the end of another task of the job",
			Available: fmt.Sprintf("%d %s a place, and max_parallel is %d", w.placed, verb, limit),
		}
	}
	if j.Spec.Gang && w.placed > 0 {
		return placement.PendingCause{Needs: "the end of its other tasks", Available: fmt.Sprintf("%d still %s a place, and a gang starts together", w.placed, verb)}
	}
	pause := (w.nextTry.Sub(now) + time.Second - 1).Truncate(time.Second)
	return placement.PendingCause{Needs: fmt.Sprintf("its next try, in %s", pause), Available: "a pause follows an attempt that ended"}
}

func explainDependencies(open []job.Dependency, stateOf func(name string) (job.State, bool)) placement.PendingCause {
	needs, available := make([]string, len(open)), make([]string, len(open))
	for i, d := range open {
		subject := "it"
		if len(open) > 1 {
			subject = d.Job
		}
		needs[i], available[i] = d.String(), subject+" no longer exists"
		if state, ok := stateOf(d.Target()); ok {
			available[i] = fmt.Sprintf("%s is %s", subject, state)
		}
	}
	return placement.PendingCause{Needs: strings.Join(needs, ", "), Available: strings.Join(available, ", ")}
}
