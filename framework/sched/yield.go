package sched

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"mesos-gpu/framework/sched/fit"
)

// An offer is for one role, so roles could never take turns if each used all
// that it is offered. A role that holds more than its share gives back what a
// role that holds less waits for: Mesos offers it anew, to the other. It does
// so once in a while only, for Mesos may have its own reasons not to.

// yield claims offers to other roles for a job that found no place in its
// own, and returns for how many of the tasks there are none either.
func (pl *placing) yield(j *Job, d *fit.Demand, missing int) int {
	if j.Spec.Request.GPUs == 0 || len(pl.p.Roles) < 2 {
		return missing
	}
	for _, role := range pl.othersWithMore(j) {
		theirs := *d
		theirs.Role, theirs.Beside, theirs.Beyond = role, nil, false
		spots := pl.cluster.Fill(&theirs, missing)
		if j.Spec.Gang && len(spots) < missing || pl.waitedFor(spots) {
			pl.cluster.Undo(&theirs, spots)
			continue
		}
		for i := range spots {
			pl.yielded[spots[i].Agent] = fmt.Sprintf("%s holds less for its weight and %s waits for it", roleName(j.Spec.Role), j.Spec.Name)
		}
		if missing -= len(spots); missing == 0 {
			return 0
		}
	}
	return missing
}

// waitedFor reports whether one of the places was given back before, not long
// ago.
func (pl *placing) waitedFor(spots []fit.Spot) bool {
	return slices.ContainsFunc(spots, func(s fit.Spot) bool { return pl.q.Yielded[pl.agents[s.Agent].ID] })
}

// othersWithMore are the roles that hold more for their weight, most first. For
// a gang they are also those that hold as much and come later by name: two gangs
// that each need what both roles were offered would wait for each other.
func (pl *placing) othersWithMore(j *Job) []string {
	mine := pl.ledger.share(j.Spec.Role)
	var others []string
	for _, r := range pl.p.Roles {
		more := cmp.Compare(pl.ledger.share(r.Name), mine)
		if more > 0 || j.Spec.Gang && more == 0 && r.Name > j.Spec.Role {
			others = append(others, r.Name)
		}
	}
	slices.SortFunc(others, func(a, b string) int {
		return cmp.Or(cmp.Compare(pl.ledger.share(b), pl.ledger.share(a)), cmp.Compare(a, b))
	})
	return others
}

func roleName(role string) string {
	if role == "" {
		return "the default role"
	}
	return "role " + role
}

// giveBack declines what was claimed of agents that got no task.
func (pl *placing) giveBack() {
	for _, i := range slices.Sorted(maps.Keys(pl.yielded)) {
		a := &pl.agents[i]
		pl.plan.Yield = append(pl.plan.Yield, a.ID)
		if len(pl.launches[i]) > 0 {
			continue // the rest comes back by itself
		}
		for _, id := range a.Offers {
			pl.plan.Decline = append(pl.plan.Decline, Declined{OfferID: id, Reason: pl.yielded[i], Why: Yielded, Refuse: pl.p.RefuseSoon})
		}
	}
}
