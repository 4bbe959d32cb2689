package sched

import (
	"slices"
	"time"

	"mesos-gpu/framework/sched/placement"
)

// returnedOffers remembers the offers that roles with more than their share have returned, so that Mesos offers them to
// roles with less. Mesos applies the filters of a refusal and chooses the next role itself. Where it makes no offer to
// another role, because of a quota or a reservation, returns would leave GPUs idle.
type returnedOffers struct {
	// byAgent are the returns whose filters may still apply, and those without an answer.
	byAgent map[placement.AgentKey]*offerReturn
	// futile has the time at which a return of an agent's offers turned out to have no effect, by agent id. Entries expire
	// after cfg.returnOffersEvery. Until then these offers are not returned.
	futile map[string]time.Time
}

// offerReturn is what a role has returned of one agent.
type offerReturn struct {
	// since is the time of the first return that was not answered by an offer of the agent to another role, last that of the
	// newest one, whose filter applies until placement.RefuseSoon later.
	since, last time.Time
	// takers are the roles for which the offers were returned. isAnswered reports that another role has had an offer of the
	// agent since.
	takers     []string
	isAnswered bool
}

func newReturnedOffers() returnedOffers {
	return returnedOffers{byAgent: map[placement.AgentKey]*offerReturn{}, futile: map[string]time.Time{}}
}

// mayBeFiltered reports whether the filter of the last return may still apply.
func (r *offerReturn) mayBeFiltered(now time.Time) bool {
	return now.Sub(r.last) < placement.RefuseSoon
}

// recordReturns records the returns of a plan, and revives the roles for which they are. So Mesos offers them at once, not at
// the next allocation, and a filter of such a role does not keep the offer from both roles. Pauses between REVIVEs of a
// role apply.
func (s *State) recordReturns(returns []placement.AgentReturn) {
	for _, r := range returns {
		key := placement.AgentKey{ID: r.AgentID, Role: r.Role}
		known := s.returned.byAgent[key]
		if known == nil || known.isAnswered {
			known = &offerReturn{since: s.now}
			s.returned.byAgent[key] = known
		}
		known.last, known.takers = s.now, r.Takers
		for _, taker := range r.Takers {
			s.offerDemands.entry(taker).reviveWanted = true
		}
	}
}

// recordAnswersToReturns notes which returns had an effect. A return had none if its filter has ended, and the agent is then
// offered to the same role without having been offered to another one.
func (s *State) recordAnswersToReturns(offers []Offer) {
	if len(s.returned.byAgent) == 0 {
		return
	}
	offered := map[string][]string{}
	for i := range offers {
		offered[offers[i].AgentID] = append(offered[offers[i].AgentID], offers[i].Role)
	}
	for key, r := range s.returned.byAgent {
		roles := offered[key.ID]
		isOther := func(role string) bool { return role != key.Role }
		switch {
		case slices.ContainsFunc(roles, isOther):
			r.isAnswered = true
		case len(roles) > 0 && !r.isAnswered && s.now.Sub(r.since) >= placement.RefuseSoon:
			s.returned.futile[key.ID] = s.now
			delete(s.returned.byAgent, key)
		case r.isAnswered && !r.mayBeFiltered(s.now) || s.now.Sub(r.last) >= s.cfg.returnOffersEvery:
			delete(s.returned.byAgent, key)
		}
	}
}

// reviveReturners revives the roles that returned an agent's offers, once another role refuses them. Otherwise they stay idle until
// the filter ends.
func (s *State) reviveReturners(refused []*Offer) {
	if len(s.returned.byAgent) == 0 {
		return
	}
	for _, o := range refused {
		for key, r := range s.returned.byAgent {
			if key.ID == o.AgentID && key.Role != o.Role && r.mayBeFiltered(s.now) {
				s.endReturn(key)
			}
		}
	}
}

// endReturnsToIdle revives the roles that returned offers for others, once nothing waits in those any more.
func (s *State) endReturnsToIdle() {
	isIdle := func(role string) bool { return s.offerDemands.entry(role).waiting == 0 }
	for key, r := range s.returned.byAgent {
		if len(r.takers) > 0 && !r.isAnswered && r.mayBeFiltered(s.now) && !slices.ContainsFunc(r.takers, func(role string) bool { return !isIdle(role) }) {
			s.endReturn(key)
		}
	}
}

// endReturn forgets a return and removes its filter.
func (s *State) endReturn(key placement.AgentKey) {
	if d := s.offerDemands.entry(key.Role); d.waiting > 0 {
		d.reviveWanted = true
	}
	delete(s.returned.byAgent, key)
}

// futileReturns returns the ids of agents of which returns had no effect of late, and forgets older ones.
func (s *State) futileReturns() map[string]bool {
	ids := map[string]bool{}
	for id, at := range s.returned.futile {
		if s.now.Sub(at) >= s.cfg.returnOffersEvery {
			delete(s.returned.futile, id)
			continue
		}
		ids[id] = true
	}
	return ids
}
