package sched

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"mesos-gpu/framework/sched/placement"
)

// addOffers holds offers until the next Cycle. They show which freed places Mesos knows about, and change why jobs wait.
func (s *State) addOffers(offers []Offer) {
	if !s.connected {
		return // they became void with the subscription
	}
	for _, o := range offers {
		s.offers.offers[o.ID] = heldOffer{o, s.now}
		s.changedAgents[placement.AgentKey{ID: o.AgentID, Role: o.Role}] = true
	}
	s.offers.stale = s.offers.stale || len(offers) > 0
	s.offerDemands.recordAnswers(s.now, offers)
	s.freed.dropOffered(offers, func(agentID string) bool { return s.listedAgents[agentID].GPUs > 0 })
	s.explanations = nil
}

// rescindOffer drops an offer. If an ACCEPT of it is under way, its tasks end in TASK_DROPPED.
func (s *State) rescindOffer(id string) {
	for _, o := range s.offers.takeOffers([]string{id}) {
		s.recordRescinded(o)
		s.explanations = nil
	}
}

// removeOffers removes offers from the pool, and remembers what they had free.
func (s *State) removeOffers(ids []string) {
	s.recordOffers(s.now, s.offers.takeOffers(ids))
	s.explanations = nil
}

// declineOffers removes offers and returns one operation for each duration of refusal.
func (s *State) declineOffers(declined []DeclinedOffer) (ops []Operation) {
	slices.SortFunc(declined, func(a, b DeclinedOffer) int { return cmp.Compare(a.OfferID, b.OfferID) })
	byTime := map[time.Duration][]DeclinedOffer{}
	ids := make([]string, len(declined))
	for i, d := range declined {
		ids[i] = d.OfferID
		byTime[d.Refuse] = append(byTime[d.Refuse], d)
	}
	s.removeOffers(ids)
	for _, refuse := range slices.Sorted(maps.Keys(byTime)) {
		ops = append(ops, DeclineOffers{Offers: byTime[refuse], Refuse: refuse})
	}
	return ops
}

// reconsiderAll makes the next cycle look at all waiting jobs, and revives declined offers that may be usable now.
func (s *State) reconsiderAll() {
	s.offers.stale = true
	s.explanations, s.reservationReasons = nil, nil
	for _, role := range s.roleNames() {
		d := s.offerDemands.entry(role)
		d.reviveWanted = d.waiting > 0
	}
}
