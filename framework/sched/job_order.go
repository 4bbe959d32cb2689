package sched

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// QueueOrder says which of a role's jobs of equal priority chooses first.
type QueueOrder string

const (
	// OldestFirst is the order of a role that names none.
	OldestFirst QueueOrder = "fifo"
	// ShortestFirst prefers jobs that say they end soon, by Spec.Runs; those
	// that do not say come after those that do, the oldest first. It makes the
	// mean wait short as far as what they say is true (W. E. Smith, "Various
	// optimizers for single-stage production", 1956).
	ShortestFirst QueueOrder = "shortest"
)

// DefaultPatience is how long jobs of a role with ShortestFirst let shorter
// ones go before.
const DefaultPatience = 24 * time.Hour

// maxPatience is beyond what anybody waits.
const maxPatience = 366 * 24 * time.Hour

// validateOrder says what is wrong with how a role's jobs queue.
func (r *Role) validateOrder() error {
	switch {
	case r.Order != "" && r.Order != OldestFirst && r.Order != ShortestFirst:
		return fmt.Errorf("role %q: order %q is none of %s, %s", r.Name, r.Order, OldestFirst, ShortestFirst)
	case r.Patience < 0 || r.Patience > maxPatience:
		return fmt.Errorf("role %q: patience %s is not between 0 and %s", r.Name, r.Patience, maxPatience)
	case r.Patience > 0 && r.Order != ShortestFirst:
		return fmt.Errorf("role %q: patience is for order %s", r.Name, ShortestFirst)
	case r.FitPolicy != "":
		if _, err := fit.ParsePolicy(r.FitPolicy); err != nil {
			return fmt.Errorf("role %q: %w", r.Name, err)
		}
	}
	return nil
}

// sortJobs puts waiting jobs of the role, oldest first, in the order in which
// they choose: by priority, then the role's order. Jobs that tie keep their
// places.
func (r *Role) sortJobs(q *PlacementQueue, list []int) {
	type place struct {
		priority int
		turn     time.Duration
		at       int
	}
	compare := func(a, b place) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.turn, b.turn), cmp.Compare(a.at, b.at))
	}
	patience := cmp.Or(r.Patience, DefaultPatience)
	places := make([]place, len(list))
	for n, at := range list {
		j := &q.Waiting[at]
		places[n] = place{priority: j.Spec.Priority, at: at}
		if r.Order == ShortestFirst {
			places[n].turn = orderKey(q.Now, patience, j)
		}
	}
	slices.SortFunc(places, compare)
	for n := range places {
		list[n] = places[n].at
	}
}

// orderKey is less for a job that goes earlier: below zero for one that has
// waited long enough, then by how long it runs, unknown last.
func orderKey(now time.Time, patience time.Duration, j *WaitingJob) time.Duration {
	switch runs := j.Spec.ExpectedRunTime(); {
	case !j.Submitted.IsZero() && now.Sub(j.Submitted) >= patience:
		return -1
	case runs > 0:
		return runs
	default:
		return maxPatience // more than Validate lets a job run
	}
}

// roleNamed finds a role in the table; one that is not there is like any other.
func (p *Policy) roleNamed(name string) *Role {
	for i := range p.Roles {
		if p.Roles[i].Name == name {
			return &p.Roles[i]
		}
	}
	return &Role{Name: name}
}

// isBehindStrictHead keeps a job of a strict role from going before one that waits.
func (pl *planner) isBehindStrictHead(j *WaitingJob) bool {
	why, waits := pl.strictHeads[j.Spec.Role]
	if waits {
		pl.leaveWaiting(j, len(j.Tasks), why)
	}
	return waits
}

// markStrictHead has the jobs behind one that waits keep their places, if its role
// wants that.
func (pl *planner) markStrictHead(j *WaitingJob) {
	if pl.policy.roleNamed(j.Spec.Role).Strict {
		pl.strictHeads[j.Spec.Role] = pendingCause{blockedBy: BlockedByReservation, needs: "its turn", available: j.Spec.Name + " goes first, and its role lets nobody go before"}
	}
}
