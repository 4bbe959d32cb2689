package sched

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// Order says which of a role's jobs of equal priority chooses first.
type Order string

const (
	// OldestFirst is the order of a role that names none.
	OldestFirst Order = "fifo"
	// ShortestFirst prefers jobs that say they end soon, by Spec.Runs; those
	// that do not say come after those that do, the oldest first. It makes the
	// mean wait short as far as what they say is true (W. E. Smith, "Various
	// optimizers for single-stage production", 1956).
	ShortestFirst Order = "shortest"
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
	case r.Policy != "":
		if _, err := fit.ParsePolicy(r.Policy); err != nil {
			return fmt.Errorf("role %q: %w", r.Name, err)
		}
	}
	return nil
}

// arrange puts waiting jobs of the role, oldest first, in the order in which
// they choose: by priority, then the role's order. Jobs that tie keep their
// places.
func (r *Role) arrange(q *Queue, list []int) {
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
			places[n].turn = turnOf(q.Now, patience, j)
		}
	}
	slices.SortFunc(places, compare)
	for n := range places {
		list[n] = places[n].at
	}
}

// turnOf is less for a job that goes earlier: below zero for one that has
// waited long enough, then by how long it runs, unknown last.
func turnOf(now time.Time, patience time.Duration, j *Job) time.Duration {
	switch runs := j.Spec.Runs(); {
	case !j.Submitted.IsZero() && now.Sub(j.Submitted) >= patience:
		return -1
	case runs > 0:
		return runs
	default:
		return maxPatience // more than Validate lets a job run
	}
}

// role finds a role in the table; one that is not there is like any other.
func (p *Policy) role(name string) *Role {
	for i := range p.Roles {
		if p.Roles[i].Name == name {
			return &p.Roles[i]
		}
	}
	return &Role{Name: name}
}

// inLine keeps a job of a strict role from going before one that waits.
func (pl *placing) inLine(j *Job) bool {
	why, waits := pl.first[j.Spec.Role]
	if waits {
		pl.wait(j, len(j.Tasks), why)
	}
	return waits
}

// line has the jobs behind one that waits keep their places, if its role
// wants that.
func (pl *placing) line(j *Job) {
	if pl.p.role(j.Spec.Role).Strict {
		pl.first[j.Spec.Role] = shortage{turn: BehindHead, lack: "its turn", seen: j.Spec.Name + " goes first, and its role lets nobody go before"}
	}
}
