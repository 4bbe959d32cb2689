package sched

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/job"
)

// heldOffer is an offer in hand.
type heldOffer struct {
	Offer
	since time.Time
}

// offerPool is the offers in hand, by id, and whether anything has happened since
// they were last looked at. Pauses that ended up to woken have happened.
type offerPool struct {
	offers          map[string]heldOffer
	stale           bool
	pausesCheckedAt time.Time
}

// addOffers takes offers in hand. The next Cycle answers them.
func (s *State) addOffers(now time.Time, offers []Offer) {
	if !s.connected {
		return // they went with the subscription
	}
	for _, o := range offers {
		s.offers.offers[o.ID] = heldOffer{o, now}
	}
	s.offers.stale = s.offers.stale || len(offers) > 0
	s.dropReturnedPlaces(offers)
	s.explanations = nil
}

// placeWaiting places what waits on the offers in hand, and makes room where a job
// may ask for it. Offers that a waiting job could use once more is free stay
// in hand for a while: those of several agents are then there together when
// the last one comes that a gang needs.
func (s *State) placeWaiting(now time.Time) []Operation {
	overdue := s.hasOverdueOffer(now)
	if !s.connected || !s.offers.stale && !overdue {
		return nil
	}
	s.offers.stale = false
	s.cache.queue.evictStale()
	ops := s.declineCordoned(now)
	if len(s.offers.offers) == 0 && !s.hasPreemptibleJob() {
		return ops // before all that waits is looked at
	}
	queue := s.fillPlacementQueue(&s.cache.queue, now)
	if len(s.offers.offers) == 0 && !hasPreemptible(&queue) {
		return ops
	}
	policy := s.cfg.Policy
	policy.Fit.Typical = s.taskMix.mostFrequent()
	s.planCount++
	placing := newPlanner(s.buildCluster(now, s.heldOffers(), &policy), &s.cache.scratch, s.leftoverOf, &queue, &policy)
	if len(s.offers.offers) <= maxHeldOffers {
		placing.keepsOffer = func(id string) bool { return s.offers.offers[id].since.Add(s.cfg.HoldOffers).After(now) }
	}
	plan := placing.makePlan()
	s.setWaitTimes(now, plan.Accept)
	for i := range plan.Accept {
		ops = append(ops, s.recordLaunches(now, &plan.Accept[i]))
	}
	ops = append(ops, s.declineUnused(now, &plan)...)
	for _, v := range plan.Preempt {
		ops = append(ops, s.preemptTask(now, v)...)
	}
	for _, id := range plan.ReturnedAgents {
		s.returnedAt[id] = now
	}
	s.reservationReasons, s.quotaBlockedRoles = map[string]PendingReason{}, map[string]bool{}
	for _, r := range plan.Unplaced {
		switch r.BlockedBy {
		case BlockedByReservation:
			s.reservationReasons[r.Job] = r
		case BlockedByQuota:
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

// hasOverdueOffer reports whether an offer has been in hand for too long.
func (s *State) hasOverdueOffer(now time.Time) bool {
	for _, h := range s.offers.offers {
		if !h.since.Add(s.cfg.HoldOffers).After(now) {
			return true
		}
	}
	return false
}

// declineUnused declines what is of no use or has been held for long enough.
func (s *State) declineUnused(now time.Time, plan *Plan) []Operation {
	refused := plan.Decline
	for _, d := range plan.Hold {
		if h := s.offers.offers[d.OfferID]; !h.since.Add(s.cfg.HoldOffers).After(now) || len(s.offers.offers) > maxHeldOffers {
			refused = append(refused, d)
		}
	}
	return s.declineOffers(now, refused)
}

// declineOffers declines offers in hand.
func (s *State) declineOffers(now time.Time, refused []DeclinedOffer) []Operation {
	slices.SortFunc(refused, func(a, b DeclinedOffer) int { return cmp.Compare(a.OfferID, b.OfferID) })
	ids := make([]string, len(refused))
	for i, d := range refused {
		ids[i] = d.OfferID
	}
	s.removeOffers(now, ids...)
	return groupDeclines(refused)
}

// maxHeldOffers bounds the offers in hand. A master has one an agent and role, and
// some more where tasks end one by one.
const maxHeldOffers = 100_000

// removeOffers takes offers out of hand; what they had is remembered.
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

// agentKey names what one agent offers to one role.
type agentKey struct{ id, role string }

func (k agentKey) compareTo(o agentKey) int {
	if c := strings.Compare(k.id, o.id); c != 0 {
		return c
	}
	return strings.Compare(k.role, o.role)
}

// agentSnapshot is an agent as it was at that time.
type agentSnapshot struct {
	fit.AgentResources
	at time.Time
}

// recordAgents remembers what agents had free when they last offered.
func (s *State) recordAgents(now time.Time, offers ...Offer) {
	s.explanations = nil
	for _, a := range fit.JoinOffers(offers) {
		key := agentKey{a.ID, a.Role}
		s.lastOffered[key] = agentSnapshot{a, now}
		s.cache.markChanged(key)
	}
}

// setWaitTimes finds out for how long a place alone was what tasks waited for. Those
// of a gang wait until the last of them may start.
func (s *State) setWaitTimes(now time.Time, plan []AcceptOffers) {
	gangs := map[*job.Job]time.Time{}
	for i := range plan {
		for l := range plan[i].Launches {
			launch := &plan[i].Launches[l]
			ref := s.tasks[launch.TaskID]
			since, known := gangs[ref.job]
			switch {
			case !ref.job.Spec.Gang:
				since = ref.get().WaitingSince()
			case !known:
				_, since = CountReady(now, ref.job, nil)
				gangs[ref.job] = since
			}
			launch.Waited = max(now.Sub(since), 0)
		}
	}
}

// recordLaunches records the intent to launch, before the ACCEPT is sent. The offers
// are gone from hand, and with them what the tasks take.
func (s *State) recordLaunches(now time.Time, a *AcceptOffers) Operation {
	var offers []Offer
	for _, id := range a.OfferIDs {
		h := s.offers.offers[id]
		offers = append(offers, h.Offer)
		if h.since.After(a.LastOfferAt) {
			a.LastOfferAt = h.since
		}
		delete(s.offers.offers, id)
	}
	s.recordAgents(now, offers...)
	for i := range a.Launches {
		l := &a.Launches[i]
		s.subtractLaunch(agentKey{a.AgentID, a.Role}, l)
		ref := s.tasks[l.TaskID]
		t := ref.get()
		t.NotBefore = time.Time{}
		t.AgentID, t.Hostname, t.AgentURL = a.AgentID, a.Hostname, a.AgentURL
		t.DeviceIDs, t.GPUTypes, t.Shares, t.Ports = l.DeviceIDs, l.GPUTypes, l.Shares, l.Ports
		s.deadlines[t.ID] = &taskDeadlines{confirmBy: now.Add(s.cfg.LaunchTimeout)}
		s.transition(now, ref, job.Launching, "")
	}
	return *a
}

// subtractLaunch takes a launch from what is remembered of an agent.
func (s *State) subtractLaunch(key agentKey, l *TaskLaunch) {
	a, ok := s.lastOffered[key]
	if !ok {
		return
	}
	need := s.cfg.Policy.taskAmount(l.Spec)
	a.Free = Amount{CPUs: a.Free.CPUs - need.CPUs, MemMiB: a.Free.MemMiB - need.MemMiB, DiskMiB: a.Free.DiskMiB - need.DiskMiB}
	if l.Shares != nil {
		a.Shared = fit.SubtractShares(a.Shared, l.Shares)
		s.lastOffered[key] = a
		return
	}
	a.GPUs -= l.Spec.Request.GPUs
	a.Ports = fit.WithoutPorts(a.Ports, l.Ports)
	a.DeviceIDs = slices.DeleteFunc(slices.Clone(a.DeviceIDs), func(id string) bool { return slices.Contains(l.DeviceIDs, id) })
	s.lastOffered[key] = a
}

// groupDeclines makes one call of all refusals for the same time.
func groupDeclines(list []DeclinedOffer) []Operation {
	byTime := map[time.Duration][]DeclinedOffer{}
	for _, d := range list {
		byTime[d.Refuse] = append(byTime[d.Refuse], d)
	}
	var ops []Operation
	for _, refuse := range slices.Sorted(maps.Keys(byTime)) {
		ops = append(ops, DeclineOffers{Offers: byTime[refuse], Refuse: refuse})
	}
	return ops
}

// rescindOffer drops an offer. An answer that is under way ends in TASK_DROPPED.
func (s *State) rescindOffer(id string) {
	h, ok := s.offers.offers[id]
	if !ok {
		return
	}
	delete(s.offers.offers, id)
	a := fit.JoinOffers([]Offer{h.Offer})[0]
	clearFree(&a)
	key := agentKey{a.ID, a.Role}
	s.lastOffered[key] = agentSnapshot{AgentResources: a}
	s.cache.markChanged(key)
	s.explanations = nil
}

// preemptTask asks a task to make room; it goes back into the queue.
func (s *State) preemptTask(now time.Time, v PreemptionVictim) []Operation {
	ref := s.tasks[v.TaskID]
	return s.requestEnd(now, ref, job.KillByPreemption, "makes room for "+v.ForJob)
}
