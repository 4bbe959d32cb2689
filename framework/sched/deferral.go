package sched

import (
	"time"

	"mesos-gpu/job"
)

// DeferralReason is what a task waits for before it may be placed.
type DeferralReason string

const (
	// DeferredByBackoff: it pauses after a failure, or another of its gang does.
	DeferredByBackoff DeferralReason = "pause"
	// DeferredByDependency: its job comes after others.
	DeferredByDependency DeferralReason = "after"
	// DeferredByGang: tasks of its gang still hold places, and all start together.
	DeferredByGang DeferralReason = "gang"
	// DeferredByMaxParallel: as many of its job hold places as may at a time.
	DeferredByMaxParallel DeferralReason = "max_parallel"
)

// AllDeferralReasons are all there are.
func AllDeferralReasons() []DeferralReason {
	return []DeferralReason{DeferredByBackoff, DeferredByDependency, DeferredByGang, DeferredByMaxParallel}
}

// CountReady counts the tasks of a job that may be placed, as a State does, and
// tells of those that wait for something else first; deferred may be nil.
// Since is when the first of them began to wait for a place, in a gang the
// last. It is zero with max_parallel: perhaps it is a task's turn just now.
func CountReady(now time.Time, j *job.Job, deferred func(why DeferralReason, tasks int)) (ready int, since time.Time) {
	w := countWaiting(now, j)
	put := func(why DeferralReason, tasks int) {
		if tasks > 0 && deferred != nil {
			deferred(why, tasks)
		}
	}
	most := j.Spec.MaxParallel
	switch {
	case len(j.Spec.UnmetDependencies()) > 0:
		put(DeferredByDependency, w.ready+w.paused)
	case j.Spec.Gang && w.placed > 0:
		put(DeferredByGang, w.ready+w.paused)
	case j.Spec.Gang && w.paused > 0:
		put(DeferredByBackoff, w.ready+w.paused)
	case most > 0:
		ready = min(w.ready, max(most-w.placed, 0))
		put(DeferredByBackoff, w.paused)
		put(DeferredByMaxParallel, w.ready-ready)
	default:
		put(DeferredByBackoff, w.paused)
		return w.ready, w.since
	}
	return ready, time.Time{}
}

// waitingCounts counts the tasks of a job that hold places, pause, and would take
// one; since when these do.
type waitingCounts struct {
	placed, paused, ready int
	since                 time.Time
}

func countWaiting(now time.Time, j *job.Job) (w waitingCounts) {
	for i := range j.Tasks {
		switch t := &j.Tasks[i]; {
		case t.State.IsPlaced():
			w.placed++
		case t.State != job.Waiting:
		case t.NotBefore.After(now):
			w.paused++
		default:
			w.ready++
			if at := t.WaitingSince(); w.since.IsZero() || at.Before(w.since) != j.Spec.Gang {
				w.since = at
			}
		}
	}
	return w
}
