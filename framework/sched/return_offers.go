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

// returnOffersToRole claims offers to other roles for a job that found no place in its
// own, and returns for how many of the tasks there are none either.
func (pl *planner) returnOffersToRole(j *WaitingJob, d *fit.Demand, missing int) int {
	if j.Spec.Request.GPUs == 0 || len(pl.policy.Roles) < 2 {
		return missing
	}
	for _, role := range pl.rolesWithMoreShare(j) {
		theirs := *d
		theirs.Role, theirs.PeerAgents, theirs.AvoidReserved = role, nil, false
		spots := pl.cluster.fillPlacements(&theirs, missing)
		if j.Spec.Gang && len(spots) < missing || pl.wasReturnedRecently(spots) {
			pl.cluster.undoPlacements(&theirs, spots)
			continue
		}
		for i := range spots {
			pl.returnReasons[spots[i].Agent] = fmt.Sprintf("%s holds less for its weight and %s waits for it", displayRoleName(j.Spec.Role), j.Spec.Name)
		}
		if missing -= len(spots); missing == 0 {
			return 0
		}
	}
	return missing
}

// wasReturnedRecently reports whether one of the places was given back before, not long
// ago.
func (pl *planner) wasReturnedRecently(spots []fit.Placement) bool {
	return slices.ContainsFunc(spots, func(s fit.Placement) bool { return pl.queue.ReturnedAgents[pl.agents[s.Agent].ID] })
}

// rolesWithMoreShare are the roles that hold more for their weight, most first. For
// a gang they are also those that hold as much and come later by name: two gangs
// that each need what both roles were offered would wait for each other.
func (pl *planner) rolesWithMoreShare(j *WaitingJob) []string {
	mine := pl.usage.weightedShare(j.Spec.Role)
	var others []string
	for _, r := range pl.policy.Roles {
		more := cmp.Compare(pl.usage.weightedShare(r.Name), mine)
		if more > 0 || j.Spec.Gang && more == 0 && r.Name > j.Spec.Role {
			others = append(others, r.Name)
		}
	}
	slices.SortFunc(others, func(a, b string) int {
		return cmp.Or(cmp.Compare(pl.usage.weightedShare(b), pl.usage.weightedShare(a)), cmp.Compare(a, b))
	})
	return others
}

func displayRoleName(role string) string {
	if role == "" {
		return "the default role"
	}
	return "role " + role
}

// declineReturned declines what was claimed of agents that got no task.
func (pl *planner) declineReturned() {
	for _, i := range slices.Sorted(maps.Keys(pl.returnReasons)) {
		a := &pl.agents[i]
		pl.plan.ReturnedAgents = append(pl.plan.ReturnedAgents, a.ID)
		if len(pl.launches[i]) > 0 {
			continue // the rest comes back by itself
		}
		for _, id := range a.Offers {
			pl.plan.Decline = append(pl.plan.Decline, DeclinedOffer{OfferID: id, Reason: pl.returnReasons[i], Category: DeclineReturnedToRole, Refuse: pl.policy.RefuseSoon})
		}
	}
}
