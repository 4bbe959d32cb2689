package sched

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// offerPool is the offers that wait for an answer.
type offerPool struct {
	// offers are the held offers by id. They leave the pool when they are accepted, declined or rescinded.
	offers map[string]heldOffer
	// stale reports that something has happened since the last plan that may change the next one.
	stale bool
	// pausesCheckedAt is the time up to which ended pauses have made the pool stale.
	pausesCheckedAt time.Time
}

type heldOffer struct {
	Offer
	since time.Time
}

// maxHeldOffers is the number of offers above which none is held. A master makes one for each agent and role, and more
// when tasks end one by one.
const maxHeldOffers = 100_000

// addOffers holds offers until the next Cycle.
func (s *State) addOffers(now time.Time, offers []Offer) {
	if !s.connected {
		return // they became void with the subscription
	}
	for _, o := range offers {
		s.offers.offers[o.ID] = heldOffer{o, now}
	}
	s.offers.stale = s.offers.stale || len(offers) > 0
	s.dropReturnedPlaces(offers)
	s.explanations = nil
}

// placeWaiting makes a plan for the waiting tasks and the held offers, and carries it out. Offers that a waiting job
// could use with more resources are held for a while, so that the offers of several agents are there together when the
// last one arrives that a gang needs.
func (s *State) placeWaiting(now time.Time) []Operation {
	overdue := s.hasOverdueOffer(now)
	if !s.connected || !s.offers.stale && !overdue {
		return nil
	}
	s.offers.stale = false
	s.cache.queue.evictStale()
	ops := s.declineCordoned(now)
	if len(s.offers.offers) == 0 && !s.hasPreemptibleJob() {
		return ops
	}
	in := s.fillPlacementInput(&s.cache.queue, now)
	if len(s.offers.offers) == 0 && !hasPreemptible(&in) {
		return ops
	}
	policy := s.cfg.Policy.Policy
	policy.Fit.Typical = s.taskMix.mostFrequent()
	s.planCount++
	agents := placement.CachedAgents{Cluster: s.buildCluster(now, s.heldOffers(), &policy), LeftoverOf: s.leftoverOf, Buffers: &s.cache.buffers}
	if len(s.offers.offers) <= maxHeldOffers {
		agents.KeepsOffer = func(id string) bool { return s.offers.offers[id].since.Add(s.cfg.HoldOffers).After(now) }
	}
	plan := placement.MakePlanOn(agents, &in, &policy)
	return append(ops, s.carryOut(now, &plan)...)
}

// carryOut records a plan and returns its operations.
func (s *State) carryOut(now time.Time, plan *placement.Plan) (ops []Operation) {
	s.setWaitTimes(now, plan.Accept)
	for i := range plan.Accept {
		ops = append(ops, s.recordLaunches(now, &plan.Accept[i]))
	}
	ops = append(ops, s.declineUnused(now, plan)...)
	for _, v := range plan.Preempt {
		ops = append(ops, s.requestEnd(now, s.tasks[v.TaskID], job.KillByPreemption, "makes room for "+v.ForJob)...)
	}
	for _, id := range plan.ReturnedAgents {
		s.returnedAt[id] = now
	}
	s.reservationReasons, s.quotaBlockedRoles = map[string]placement.PendingReason{}, map[string]bool{}
	for _, r := range plan.Unplaced {
		switch r.BlockedBy {
		case placement.BlockedByReservation:
			s.reservationReasons[r.Job] = r
		case placement.BlockedByQuota:
			s.quotaBlockedRoles[s.jobs[r.Job].Spec.Role] = true
		}
	}
	return ops
}

func (s *State) heldOffers() []Offer {
	offers := make([]Offer, 0, len(s.offers.offers))
	for _, h := range s.offers.offers {
		offers = append(offers, h.Offer)
	}
	return offers
}

// isOverdue reports whether an offer has been held for as long as offers are.
func (s *State) isOverdue(now time.Time, offerID string) bool {
	return !s.offers.offers[offerID].since.Add(s.cfg.HoldOffers).After(now)
}

func (s *State) hasOverdueOffer(now time.Time) bool {
	for id := range s.offers.offers {
		if s.isOverdue(now, id) {
			return true
		}
	}
	return false
}

// declineUnused declines the offers that no job can use, and those that have been held for long enough.
func (s *State) declineUnused(now time.Time, plan *placement.Plan) []Operation {
	declined := plan.Decline
	for _, d := range plan.Hold {
		if s.isOverdue(now, d.OfferID) || len(s.offers.offers) > maxHeldOffers {
			declined = append(declined, d)
		}
	}
	return s.declineOffers(now, declined)
}

// declineOffers removes offers and returns one operation for each duration of refusal.
func (s *State) declineOffers(now time.Time, declined []DeclinedOffer) (ops []Operation) {
	slices.SortFunc(declined, func(a, b DeclinedOffer) int { return cmp.Compare(a.OfferID, b.OfferID) })
	byTime := map[time.Duration][]DeclinedOffer{}
	ids := make([]string, len(declined))
	for i, d := range declined {
		ids[i] = d.OfferID
		byTime[d.Refuse] = append(byTime[d.Refuse], d)
	}
	s.removeOffers(now, ids...)
	for _, refuse := range slices.Sorted(maps.Keys(byTime)) {
		ops = append(ops, DeclineOffers{Offers: byTime[refuse], Refuse: refuse})
	}
	return ops
}

// removeOffers removes offers from the pool, and remembers what they had free.
func (s *State) removeOffers(now time.Time, ids ...string) {
	var offers []Offer
	for _, id := range ids {
		if h, ok := s.offers.offers[id]; ok {
			offers = append(offers, h.Offer)
			delete(s.offers.offers, id)
		}
	}
	s.recordAgents(now, offers...)
}

func (s *State) recordAgents(now time.Time, offers ...Offer) {
	s.explanations = nil
	for _, a := range fit.JoinOffers(offers) {
		key := placement.AgentKey{ID: a.ID, Role: a.Role}
		s.lastOffered[key] = agentSnapshot{a, now}
		s.cache.markChanged(key)
	}
}

// setWaitTimes sets how long only a place was missing for each task. Tasks of a gang wait from when the last of them
// was ready.
func (s *State) setWaitTimes(now time.Time, accepted []placement.AgentLaunches) {
	gangs := map[*job.Job]time.Time{}
	for i := range accepted {
		for l := range accepted[i].Launches {
			launch := &accepted[i].Launches[l]
			ref := s.tasks[launch.TaskID]
			since, known := gangs[ref.job]
			switch {
			case !ref.job.Spec.Gang:
				since = ref.get().WaitingSince()
			case !known:
				_, since = pending.CountReady(now, ref.job, nil)
				gangs[ref.job] = since
			}
			launch.Waited = max(now.Sub(since), 0)
		}
	}
}

// recordLaunches records the intent to launch tasks, and removes the offers and what the tasks take of them. The caller
// journals it before the ACCEPT is sent.
func (s *State) recordLaunches(now time.Time, a *placement.AgentLaunches) Operation {
	for _, id := range a.OfferIDs {
		if since := s.offers.offers[id].since; since.After(a.LastOfferAt) {
			a.LastOfferAt = since
		}
	}
	s.removeOffers(now, a.OfferIDs...)
	for i := range a.Launches {
		l := &a.Launches[i]
		s.subtractLaunch(placement.AgentKey{ID: a.AgentID, Role: a.Role}, l)
		ref := s.tasks[l.TaskID]
		t := ref.get()
		t.NotBefore = time.Time{}
		t.AgentID, t.Hostname, t.AgentURL = a.AgentID, a.Hostname, a.AgentURL
		t.DeviceIDs, t.GPUTypes, t.Shares, t.Ports = l.DeviceIDs, l.GPUTypes, l.Shares, l.Ports
		s.deadlines[t.ID] = &taskDeadlines{confirmBy: now.Add(s.cfg.LaunchTimeout)}
		s.transition(now, ref, job.Launching, "")
	}
	return AcceptOffers(*a)
}

// subtractLaunch removes what a launch takes from the last known free resources of its agent.
func (s *State) subtractLaunch(key placement.AgentKey, l *TaskLaunch) {
	a, ok := s.lastOffered[key]
	if !ok {
		return
	}
	need := queue.TaskAmount(l.Spec, s.cfg.Policy.Overhead)
	a.Free = Amount{CPUs: a.Free.CPUs - need.CPUs, MemMiB: a.Free.MemMiB - need.MemMiB, DiskMiB: a.Free.DiskMiB - need.DiskMiB}
	if l.Shares != nil {
		a.Shared = fit.SubtractShares(a.Shared, l.Shares)
	} else {
		a.GPUs -= l.Spec.Request.GPUs
		a.Ports = fit.WithoutPorts(a.Ports, l.Ports)
		a.DeviceIDs = slices.DeleteFunc(slices.Clone(a.DeviceIDs), func(id string) bool { return slices.Contains(l.DeviceIDs, id) })
	}
	s.lastOffered[key] = a
}

// rescindOffer drops an offer. If an ACCEPT of it is under way, its tasks end in TASK_DROPPED.
func (s *State) rescindOffer(id string) {
	h, ok := s.offers.offers[id]
	if !ok {
		return
	}
	delete(s.offers.offers, id)
	a := fit.JoinOffers([]Offer{h.Offer})[0]
	pending.ClearFree(&a)
	key := placement.AgentKey{ID: a.ID, Role: a.Role}
	s.lastOffered[key] = agentSnapshot{AgentResources: a}
	s.cache.markChanged(key)
	s.explanations = nil
}
