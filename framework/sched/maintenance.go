package sched

import (
	"slices"
	"time"
)

// setAgents takes the master's list: agents that are not in it are gone.
func (s *State) setAgents(list []Agent) {
	s.explained, s.pool.stale, s.fleet = nil, true, fleet{}
	s.cluster, s.shared = make(map[string]Agent, len(list)), map[string][]Shared{}
	for _, a := range list {
		s.cluster[a.ID] = a
		if len(a.Shared) > 0 {
			s.shared[a.ID] = a.Shared
		}
	}
	for key := range s.agents {
		if _, ok := s.cluster[key.id]; !ok {
			delete(s.agents, key)
		}
	}
}

// agentLost forgets an agent that the master removed, and its offers.
func (s *State) agentLost(id string) {
	for offer, h := range s.pool.offers {
		if h.AgentID == id {
			delete(s.pool.offers, offer)
		}
	}
	for key := range s.agents {
		if key.id == id {
			delete(s.agents, key)
		}
	}
	delete(s.cluster, id)
	delete(s.shared, id)
	s.explained, s.fleet = nil, fleet{}
}

// inverseRefuse is how long an answer to an inverse offer holds.
const inverseRefuse = 30 * time.Second

// answerInverse lets agents go on which none of our tasks will run any more
// when the maintenance begins.
func (s *State) answerInverse(offers []InverseOffer) []Op {
	if !s.connected {
		return nil
	}
	busy := map[string]time.Time{} // until when; the far future where nobody knows
	for _, name := range s.queue {
		j := s.jobs[name]
		for i := range j.Tasks {
			if t := &j.Tasks[i]; t.State.Placed() {
				ends := s.running(s.now, j, t).Ends
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
	var ops []Op
	for _, a := range []AnswerInverse{{OfferIDs: accept, Accept: true, Refuse: inverseRefuse}, {OfferIDs: decline, Refuse: inverseRefuse}} {
		if slices.Sort(a.OfferIDs); len(a.OfferIDs) > 0 {
			ops = append(ops, a)
		}
	}
	return ops
}

// reconsider has all that waits looked at anew: what was declined may be of
// use now.
func (s *State) reconsider() {
	s.pool.stale = true
	s.explained, s.turns = nil, nil
	for _, role := range s.roleNames() {
		d := s.demandOf(role)
		d.wanted = d.waiting > 0
	}
}

// setPolicy takes other roles, quotas and ways of placing. Tasks stay where
// they are; jobs of a role that is no more wait until it is back.
func (s *State) setPolicy(p Policy) []Op {
	p.setDefaults()
	before := s.roleNames()
	s.given, p.Roles = p.Roles, s.withQuotas(p.Roles)
	s.cfg.Policy = p
	s.fleet = fleet{}
	clear(s.wishes)
	s.reconsider()
	for role, d := range s.demands {
		if !slices.Contains(s.roleNames(), role) && d.waiting == 0 {
			delete(s.demands, role)
		}
	}
	if slices.Equal(before, s.roleNames()) || !s.connected {
		return nil
	}
	for id, h := range s.pool.offers {
		if !slices.Contains(s.roleNames(), h.Role) {
			delete(s.pool.offers, id)
		}
	}
	return []Op{SetRoles{Roles: named(s.roleNames())}}
}
