package placement

import (
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
// share therefore returns offers that a job of a role with less waits for, unless Mesos has not offered what was returned of
// that agent before to another role.
type offerReturns struct {
	// alloc has the cluster, in which claimed offers are taken, and what roles hold.
	alloc  *Allocator
	shares *queue.RoleShares
	// futile copies PlanInput.FutileReturns.
	futile map[string]bool
	// byAgent has the offers that are returned or must not be, by the index of their agent.
	byAgent map[int]offerReturn
}

// offerReturn states whether the offers of an agent are returned.
type offerReturn struct {
	// reason says why they are returned, "" if they are not. takers are the roles with less for which they are, if fair share is
	// the reason.
	reason string
	takers []string
	// isClaimed is set if a claim of their own role needs them. What a role deserves comes before fair shares: otherwise it is
	// returned for a role with less, which returns it for a third one, which returns it for the claim.
	isClaimed bool
}

// claimOffers claims offers to other roles for missing tasks of a job, which count as held by its role from then on. It
// returns the number of tasks for which it found offers, for a gang all or none.
func (o *offerReturns) claimOffers(j *queue.WaitingJob, d *fit.Demand, missing int) (claimed int) {
	if j.Spec.Request.GPUs == 0 {
		return 0
	}
	// Two gangs that each need what both roles were offered would otherwise wait for each other forever.
	withEqual := j.Spec.Gang
	larger := o.shares.LargerThan(j.Spec.Role, withEqual)
	if len(larger) == 0 {
		return 0
	}
	_, allowed, _ := o.alloc.Usage.Restrict(quota.UserOf(j.Spec), d.Request)
	if j.Spec.Gang && allowed < missing {
		return 0
	}
	if missing = min(missing, allowed); missing == 0 {
		return 0
	}
	c := o.alloc.Cluster
	for _, role := range larger {
		theirs := *d
		theirs.Role, theirs.PeerAgents, theirs.AvoidReserved = role, nil, false
		places := o.keepReturnable(&theirs, c.PlaceTasks(&theirs, missing-claimed))
		if j.Spec.Gang && len(places) < missing {
			c.UndoPlacements(&theirs, places)
			continue
		}
		own := "role " + j.Spec.Role
		if j.Spec.Role == "" {
			own = "the default role"
		}
		for i := range places {
			at := places[i].Agent
			r := o.byAgent[at]
			r.reason = fmt.Sprintf("%s holds less for its weight and %s waits for it", own, j.Spec.Name)
			r.takers = append(r.takers, j.Spec.Role)
			o.byAgent[at] = r
			types := countGPUTypes(&c.agents[at], &places[i], d.Request.GPUs)
			o.alloc.Usage.AddUsage(j.Spec.Role, types, places[i].Shares, 1)
			o.alloc.Usage.AddUserUsage(j.Spec, types, places[i].Shares, 1)
		}
		if claimed += len(places); claimed == missing {
			break
		}
	}
	return claimed
}

// keepReturnable frees the places on agents whose offers must not be returned, and returns the others: those of which a
// return had no effect, those that are reserved for the role in Mesos, and those that a claim of the role needs.
func (o *offerReturns) keepReturnable(d *fit.Demand, places []fit.Placement) (kept []fit.Placement) {
	var others []fit.Placement
	for i := range places {
		a := &o.alloc.Cluster.agents[places[i].Agent]
		if o.futile[a.ID] || a.Reserved && !a.Unreserved || o.byAgent[places[i].Agent].isClaimed {
			others = append(others, places[i])
		} else {
			kept = append(kept, places[i])
		}
	}
	o.alloc.Cluster.UndoPlacements(d, others)
	return kept
}

// decline adds the claimed offers to the plan. Where the agent receives tasks, what is left of its offers returns to
// Mesos without a DECLINE.
func (o *offerReturns) decline(plan *Plan, launches map[int][]TaskLaunch, refuse time.Duration) {
	for _, i := range slices.Sorted(maps.Keys(o.byAgent)) {
		r, a := o.byAgent[i], &o.alloc.Cluster.agents[i]
		if r.reason == "" {
			continue
		}
		takers := slices.Compact(slices.Sorted(slices.Values(r.takers)))
		plan.Returns = append(plan.Returns, AgentReturn{AgentID: a.ID, Role: a.Role, Takers: takers})
		if len(launches[i]) > 0 {
			continue
		}
		for _, id := range a.Offers {
			plan.Decline = append(plan.Decline, DeclinedOffer{OfferID: id, Reason: r.reason, Category: DeclineReturnedToRole, Refuse: refuse})
		}
	}
}
