package sched

import (
	"time"

	"mesos-gpu/job"
)

// Deferral is what a task waits for before it may be placed.
type Deferral string

const (
	// ForPause: it pauses after a failure, or another of its gang does.
	ForPause Deferral = "pause"
	// ForJobs: its job comes after others.
	ForJobs Deferral = "after"
	// ForGang: tasks of its gang still hold places, and all start together.
	ForGang Deferral = "gang"
	// ForTurn: as many of its job hold places as may at a time.
	ForTurn Deferral = "max_parallel"
)

// Deferrals are all there are.
func Deferrals() []Deferral { return []Deferral{ForPause, ForJobs, ForGang, ForTurn} }

// Queued counts the tasks of a job that may be placed, as a State does, and
// tells of those that wait for something else first; deferred may be nil.
// Since is when the first of them began to wait for a place, in a gang the
// last. It is zero with max_parallel: perhaps it is a task's turn just now.
func Queued(now time.Time, j *job.Job, deferred func(why Deferral, tasks int)) (ready int, since time.Time) {
	w := waitersOf(now, j)
	put := func(why Deferral, tasks int) {
		if tasks > 0 && deferred != nil {
			deferred(why, tasks)
		}
	}
	most := j.Spec.MaxParallel
	switch {
	case len(j.Spec.WaitsFor()) > 0:
		put(ForJobs, w.ready+w.paused)
	case j.Spec.Gang && w.placed > 0:
		put(ForGang, w.ready+w.paused)
	case j.Spec.Gang && w.paused > 0:
		put(ForPause, w.ready+w.paused)
	case most > 0:
		ready = min(w.ready, max(most-w.placed, 0))
		put(ForPause, w.paused)
		put(ForTurn, w.ready-ready)
	default:
		put(ForPause, w.paused)
		return w.ready, w.since
	}
	return ready, time.Time{}
}

// waiters counts the tasks of a job that hold places, pause, and would take
// one; since when these do.
type waiters struct {
	placed, paused, ready int
	since                 time.Time
}

func waitersOf(now time.Time, j *job.Job) (w waiters) {
	for i := range j.Tasks {
		switch t := &j.Tasks[i]; {
		case t.State.Placed():
			w.placed++
		case t.State != job.Waiting:
		case t.NotBefore.After(now):
			w.paused++
		default:
			w.ready++
			if at := t.WaitsSince(); w.since.IsZero() || at.Before(w.since) != j.Spec.Gang {
				w.since = at
			}
		}
	}
	return w
}
