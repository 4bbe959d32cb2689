package sched

import (
	"maps"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// fleet is all agents as the last cycle saw them. It is kept so that the next
// one looks only at those that have changed since: most have not.
type fleet struct {
	cluster *clusters         // nil: to be made of all agents
	changed map[agentKey]bool // what is known of them has, beside what is in hand
	work    clusters          // what a plan uses up
	scratch scratch
	line    line
}

// change says that something about an agent that is not in hand is new.
func (f *fleet) change(key agentKey) {
	if f.changed == nil {
		f.changed = map[agentKey]bool{}
	}
	f.changed[key] = true
}

// assemble makes a cluster of what the offers in hand have free and of agents
// that offer nothing now. It is the caller's.
func (s *State) assemble(now time.Time, offers []Offer, p *Policy) *clusters {
	agents := fit.Join(offers)
	inHand := make(map[agentKey]bool, len(agents))
	for i := range agents {
		a := &agents[i]
		inHand[agentKey{a.ID, a.Role}], a.AllShared = true, s.shared[a.ID]
	}
	f := &s.fleet
	if f.cluster != nil {
		changed := agents
		for _, key := range slices.SortedFunc(maps.Keys(f.changed), agentKey.compare) {
			if a, ok := s.agents[key]; ok && !inHand[key] {
				a.TotalGPUs, a.AllShared = s.cluster[key.id].GPUs, s.shared[key.id]
				changed = append(changed, withNothing(a.Agent))
			}
		}
		if !f.cluster.renew(changed, p, now) {
			f.cluster = nil
		}
	}
	if f.cluster == nil {
		for _, a := range s.known(inHand) {
			agents = append(agents, withNothing(a))
		}
		f.cluster = newClusters(agents, p, now)
	}
	f.changed = nil
	for key := range inHand { // they will be others, or offer nothing
		f.change(key)
	}
	f.work.copyFrom(f.cluster)
	return &f.work
}

// withNothing is an agent that has nothing free.
func withNothing(a fit.Agent) fit.Agent {
	a.Offers, a.Free, a.GPUs, a.DeviceIDs, a.Shared = nil, Amount{}, 0, nil, nil
	return a
}

// left is what leftovers would say of one agent that offers nothing now.
func (s *State) left(a *fit.Agent) fit.Holding {
	key := agentKey{a.ID, a.Role}
	if !s.counts(key, s.now) {
		return fit.Holding{}
	}
	was := s.agents[key]
	return all(&was.Agent)
}

// counts reports whether what an agent had free when it last offered still
// does: others may have taken it, and one that is shut gives nothing.
func (s *State) counts(key agentKey, now time.Time) bool {
	was, ok := s.agents[key]
	return ok && !was.at.Add(stillThere).Before(now) && !s.shut(was.Hostname, was.ID)
}

// all is what an agent has free, as a task would have it.
func all(a *fit.Agent) fit.Holding {
	return fit.Holding{Amount: a.Free, GPUs: a.GPUs, DeviceIDs: a.DeviceIDs, Parts: asParts(a.Shared)}
}
