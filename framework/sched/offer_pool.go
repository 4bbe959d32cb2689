package sched

import (
	"time"

	"mesos-gpu/framework/sched/placement"
)

// offerPool is the offers that wait for an answer.
type offerPool struct {
	// offers are the held offers by id. They leave the pool when they are accepted, declined or rescinded, when their
	// agent is removed, and when the subscription ends.
	offers map[string]heldOffer
	// stale reports that something has happened since the last plan that may change the next one.
	stale bool
	// pausesCheckedAt is the time up to which ended pauses have made the pool stale.
	pausesCheckedAt time.Time
}

type heldOffer struct {
	*Offer
	// since is when the offer arrived.
	since time.Time
}

// keyOfOffer returns the agent and the role of an offer.
func keyOfOffer(o *Offer) placement.AgentKey { return placement.AgentKey{ID: o.AgentID, Role: o.Role} }

// maxHeldOffers is the number of offers above which none is held. A master makes one for each agent and role, and more
// when tasks end one by one.
const maxHeldOffers = 100_000

func (p *offerPool) heldOffers() []*Offer {
	offers := make([]*Offer, 0, len(p.offers))
	for _, h := range p.offers {
		offers = append(offers, h.Offer)
	}
	return offers
}

// heldOffersOf returns the held offers of some agents.
func (p *offerPool) heldOffersOf(agents map[placement.AgentKey]bool) []*Offer {
	offers := make([]*Offer, 0, min(len(agents), len(p.offers))) // an agent rarely has two for a role
	for _, h := range p.offers {
		if _, isWanted := agents[keyOfOffer(h.Offer)]; isWanted {
			offers = append(offers, h.Offer)
		}
	}
	return offers
}

// takeOffers removes offers from the pool and returns those that were in it.
func (p *offerPool) takeOffers(ids []string) []*Offer {
	taken := make([]*Offer, 0, len(ids))
	for _, id := range ids {
		if h, ok := p.offers[id]; ok {
			taken = append(taken, h.Offer)
			delete(p.offers, id)
		}
	}
	return taken
}

// isOverdue reports whether the offer has been held for the given time.
func (h *heldOffer) isOverdue(now time.Time, hold time.Duration) bool {
	return !h.since.Add(hold).After(now)
}

func (p *offerPool) hasOverdueOffer(now time.Time, hold time.Duration) bool {
	for _, h := range p.offers {
		if h.isOverdue(now, hold) {
			return true
		}
	}
	return false
}
