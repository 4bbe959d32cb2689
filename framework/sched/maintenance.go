package sched

import (
	"slices"
	"time"

	"mesos-gpu/job"
)

// setAgents replaces the registered agents. If attributes, devices or agents differ from the last list, the next plan reads
// all agents again.
func (s *State) setAgents(list []Agent) {
	s.keepTotals()
	if s.setListedAgents(list) {
		s.agentCache, s.totals = agentCache{}, nil
	}
	s.explanations, s.offers.stale = nil, true
	s.noteAgents(func(agentID string) bool { _, listed := s.listedAgents[agentID]; return listed })
}

// loseAgent forgets an agent that the master removed, and its offers.
func (s *State) loseAgent(id string) {
	for offer, h := range s.offers.offers {
		if h.AgentID == id {
			delete(s.offers.offers, offer)
		}
	}
	if a, listed := s.listedAgents[id]; listed {
		s.absentTotals[id] = a // until the next list: it may be back before
	}
	s.removeAgent(id)
	s.totals = nil
	s.noteAbsence(id)
	for _, h := range s.held.byAgent[id] { // the master reports only the tasks that it knows as unreachable
		if ref, isTask := s.tasks[h.taskID]; isTask && ref.get().State.IsPlaced() && ref.get().State != job.Unreachable {
			s.deadlines.entry(h.taskID).confirmBy = s.now
		}
	}
	for key := range s.conflicts {
		if key.ID == id {
			delete(s.conflicts, key)
		}
	}
	s.explanations, s.agentCache = nil, agentCache{}
}

// inverseOfferRefuse is how long the answer to an inverse offer is valid.
const inverseOfferRefuse = 30 * time.Second

// answerInverseOffers accepts the maintenance of agents on which no task will run when it begins.
func (s *State) answerInverseOffers(offers []InverseOffer) (ops []Operation) {
	if !s.connected {
		return nil
	}
	busy := map[string]time.Time{} // when the last task of each agent ends, the far future if that is unknown
	for ref := range s.placedTasks() {
		r := s.runningTask(ref)
		if r.Ends.IsZero() {
			r.Ends = time.Unix(1<<40, 0)
		}
		if r.Ends.After(busy[r.AgentID]) {
			busy[r.AgentID] = r.Ends
		}
	}
	answers := []AnswerInverseOffers{{Accept: true, Refuse: inverseOfferRefuse}, {Refuse: inverseOfferRefuse}}
	for _, o := range offers {
		a := &answers[0]
		if busy[o.AgentID].After(o.Start) {
			a = &answers[1]
		}
		a.OfferIDs = append(a.OfferIDs, o.ID)
	}
	for _, a := range answers {
		if slices.Sort(a.OfferIDs); len(a.OfferIDs) > 0 {
			ops = append(ops, a)
		}
	}
	return ops
}
