package sched

import (
	"cmp"
	"slices"
	"strings"

	"mesos-gpu/framework/sched/placement"
)

// addOffers holds offers until the next Cycle. They show which freed places Mesos knows about, and change why jobs wait.
func (s *State) addOffers(offers []Offer) {
	if !s.connected {
		return // they became void with the subscription
	}
	for _, o := range s.restrictOffers(offers) {
		s.offers.offers[o.ID] = heldOffer{o, s.now}
		s.changedAgents[keyOfOffer(o)] = false
	}
	s.noteAgents(func(agentID string) bool {
		return slices.ContainsFunc(offers, func(o Offer) bool { return o.AgentID == agentID })
	})
	s.offers.stale = s.offers.stale || len(offers) > 0
	s.offerDemands.recordAnswers(s.now, offers)
	s.recordAnswersToReturns(offers)
	s.dropOffered(offers)
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

// declineOffers removes the offers of all lists and returns one operation for each duration of refusal.
func (s *State) declineOffers(lists ...[]DeclinedOffer) (ops []Operation) {
	declined := slices.Concat(lists...)
	ids := make([]string, len(declined))
	var refused []*Offer
	for i := range declined {
		d := &declined[i]
		ids[i] = d.OfferID
		if h, isHeld := s.offers.offers[d.OfferID]; isHeld && h.GPUs > 0 && d.Category != placement.DeclineReturnedToRole {
			refused = append(refused, h.Offer)
		}
		if h, isHeld := s.offers.offers[d.OfferID]; isHeld && len(s.conflicts) > 0 && !s.conflicts[keyOfOffer(h.Offer)].isAmount {
			if text, _ := s.explainConflict(keyOfOffer(h.Offer)); text != "" {
				d.Reason = text
			}
		}
	}
	s.reviveReturners(refused)
	s.removeOffers(ids)
	slices.SortFunc(declined, func(a, b DeclinedOffer) int {
		return cmp.Or(cmp.Compare(a.Refuse, b.Refuse), strings.Compare(a.OfferID, b.OfferID))
	})
	for first, next := 0, 0; first < len(declined); first = next {
		for next < len(declined) && declined[next].Refuse == declined[first].Refuse {
			next++
		}
		ops = append(ops, DeclineOffers{Offers: declined[first:next:next], Refuse: declined[first].Refuse})
	}
	return ops
}

// reconsiderAll makes the next cycle look at all waiting jobs, and revives declined offers that may be usable now.
func (s *State) reconsiderAll() {
	s.offers.stale = true
	s.explanations, s.reservationReasons, s.totals = nil, nil, nil
	for _, role := range s.roleNames() {
		d := s.offerDemands.entry(role)
		d.reviveWanted = d.waiting > 0
	}
}
