package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
)

// offerReturns are the offers to be declined so that Mesos offers them to another role. An offer is for one role, so
// a role that used all offers it receives would never leave anything to the others. A role that holds more than its
// share therefore returns offers that a job of a role with less waits for. It does so only from time to time, because
// Mesos may offer the resources to the same role again.
type offerReturns struct {
	// alloc has the cluster, in which claimed offers are taken, and what roles hold.
	alloc *Allocator
	roles []queue.Role
	// recent are the ids of agents whose offers were returned recently.
	recent map[string]bool
	// reasons say why the offers of an agent are returned, by the index of the agent.
	reasons map[int]string
}

// claimOffers claims offers to other roles for missing tasks of a job. It returns the number of tasks for which it found
// no offers.
func (o *offerReturns) claimOffers(j *queue.WaitingJob, d *fit.Demand, missing int) int {
	if j.Spec.Request.GPUs == 0 || len(o.roles) < 2 {
		return missing
	}
	c := o.alloc.Cluster
	for _, role := range rolesWithMoreShare(j, o.alloc.Usage, o.roles) {
		theirs := *d
		theirs.Role, theirs.PeerAgents, theirs.AvoidReserved = role, nil, false
		places := c.PlaceTasks(&theirs, missing)
		recent := slices.ContainsFunc(places, func(p fit.Placement) bool { return o.recent[c.agents[p.Agent].ID] })
		if recent || j.Spec.Gang && len(places) < missing {
			c.UndoPlacements(&theirs, places)
			continue
		}
		own := "role " + j.Spec.Role
		if j.Spec.Role == "" {
			own = "the default role"
		}
		for i := range places {
			o.reasons[places[i].Agent] = fmt.Sprintf("%s holds less for its weight and %s waits for it", own, j.Spec.Name)
		}
		if missing -= len(places); missing == 0 {
			return 0
		}
	}
	return missing
}

// rolesWithMoreShare returns the roles with a larger weighted share than the job's role, the largest first. For a gang it
// includes roles with an equal share that come later by name: two gangs that each need what both roles were offered
// would otherwise wait for each other forever.
func rolesWithMoreShare(j *queue.WaitingJob, usage *quota.Tracker, roles []queue.Role) []string {
	own := usage.WeightedShare(j.Spec.Role)
	var others []string
	for _, r := range roles {
		more := cmp.Compare(usage.WeightedShare(r.Name), own)
		if more > 0 || j.Spec.Gang && more == 0 && r.Name > j.Spec.Role {
			others = append(others, r.Name)
		}
	}
	slices.SortFunc(others, func(a, b string) int {
		return cmp.Or(cmp.Compare(usage.WeightedShare(b), usage.WeightedShare(a)), cmp.Compare(a, b))
	})
	return others
}

// decline adds the claimed offers to the plan. Where the agent receives tasks, what is left of its offers returns to
// Mesos without a DECLINE.
func (o *offerReturns) decline(plan *Plan, launches map[int][]TaskLaunch, refuse time.Duration) {
	for _, i := range slices.Sorted(maps.Keys(o.reasons)) {
		a := &o.alloc.Cluster.agents[i]
		plan.ReturnedAgents = append(plan.ReturnedAgents, a.ID)
		if len(launches[i]) > 0 {
			continue
		}
		for _, id := range a.Offers {
			plan.Decline = append(plan.Decline, DeclinedOffer{OfferID: id, Reason: o.reasons[i], Category: DeclineReturnedToRole, Refuse: refuse})
		}
	}
}
