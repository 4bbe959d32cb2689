package sched

import (
	"slices"
	"time"
)

// setAgents replaces the registered agents. Agents that are no longer listed are gone.
func (s *State) setAgents(list []Agent) {
	s.explanations, s.offers.stale, s.cache = nil, true, agentCache{}
	s.listedAgents, s.sharedDevices = make(map[string]Agent, len(list)), map[string][]SharedDevice{}
	for _, a := range list {
		s.listedAgents[a.ID] = a
		if len(a.Shared) > 0 {
			s.sharedDevices[a.ID] = a.Shared
		}
	}
	for key := range s.lastOffered {
		if _, ok := s.listedAgents[key.ID]; !ok {
			delete(s.lastOffered, key)
		}
	}
}

// removeAgent forgets an agent that the master removed, and its offers.
func (s *State) removeAgent(id string) {
	for offer, h := range s.offers.offers {
		if h.AgentID == id {
			delete(s.offers.offers, offer)
		}
	}
	for key := range s.lastOffered {
		if key.ID == id {
			delete(s.lastOffered, key)
		}
	}
	delete(s.listedAgents, id)
	delete(s.sharedDevices, id)
	s.explanations, s.cache = nil, agentCache{}
}

// inverseOfferRefuse is how long the answer to an inverse offer is valid.
const inverseOfferRefuse = 30 * time.Second

// answerInverseOffers accepts the maintenance of agents on which no task will run when it begins.
func (s *State) answerInverseOffers(offers []InverseOffer) []Operation {
	if !s.connected {
		return nil
	}
	busy := map[string]time.Time{} // when the last task of each agent ends, the far future if that is unknown
	for _, name := range s.queue {
		j := s.jobs[name]
		for i := range j.Tasks {
			if t := &j.Tasks[i]; t.State.IsPlaced() {
				ends := s.runningTask(s.now, j, t).Ends
				if ends.IsZero() {
					ends = time.Unix(1<<40, 0)
				}
				if ends.After(busy[t.AgentID]) {
					busy[t.AgentID] = ends
				}
			}
		}
	}
	var accept, decline []string
	for _, o := range offers {
		if busy[o.AgentID].After(o.Start) {
			decline = append(decline, o.ID)
		} else {
			accept = append(accept, o.ID)
		}
	}
	var ops []Operation
	for _, a := range []AnswerInverseOffers{{OfferIDs: accept, Accept: true, Refuse: inverseOfferRefuse}, {OfferIDs: decline, Refuse: inverseOfferRefuse}} {
		if slices.Sort(a.OfferIDs); len(a.OfferIDs) > 0 {
			ops = append(ops, a)
		}
	}
	return ops
}

// reconsiderAll makes the next cycle look at all waiting jobs, and revives declined offers that may be usable now.
func (s *State) reconsiderAll() {
	s.offers.stale = true
	s.explanations, s.reservationReasons = nil, nil
	for _, role := range s.roleNames() {
		d := s.offerDemandFor(role)
		d.reviveWanted = d.waiting > 0
	}
}

// setPolicy replaces the policy. Tasks keep running; jobs of a role that is removed wait until it is back.
func (s *State) setPolicy(p Policy) []Operation {
	p.SetDefaults()
	before := s.roleNames()
	s.configuredRoles, p.Roles = p.Roles, s.applyOperatorQuotas(p.Roles)
	s.cfg.Policy = p
	s.cache = agentCache{}
	clear(s.demandKeys)
	s.reconsiderAll()
	for role, d := range s.offerDemands {
		if !slices.Contains(s.roleNames(), role) && d.waiting == 0 {
			delete(s.offerDemands, role)
		}
	}
	if slices.Equal(before, s.roleNames()) || !s.connected {
		return nil
	}
	for id, h := range s.offers.offers {
		if !slices.Contains(s.roleNames(), h.Role) {
			delete(s.offers.offers, id)
		}
	}
	return []Operation{SetRoles{Roles: namedRoles(s.roleNames())}}
}
