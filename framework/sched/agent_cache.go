package sched

import (
	"maps"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// agentCache is all agents as the last cycle saw them. It is kept so that the next
// one looks only at those that have changed since: most have not.
type agentCache struct {
	cluster *partitionedCluster // nil: to be made of all agents
	changed map[agentKey]bool   // what is known of them has, beside what is in hand
	working partitionedCluster  // what a plan uses up
	scratch planBuffers
	queue   queueCache
}

// markChanged says that something about an agent that is not in hand is new.
func (f *agentCache) markChanged(key agentKey) {
	if f.changed == nil {
		f.changed = map[agentKey]bool{}
	}
	f.changed[key] = true
}

// buildCluster makes a cluster of what the offers in hand have free and of agents
// that offer nothing now. It is the caller's.
func (s *State) buildCluster(now time.Time, offers []Offer, p *Policy) *partitionedCluster {
	agents := fit.JoinOffers(offers)
	inHand := make(map[agentKey]bool, len(agents))
	for i := range agents {
		a := &agents[i]
		inHand[agentKey{a.ID, a.Role}], a.AllShared = true, s.sharedDevices[a.ID]
	}
	f := &s.cache
	if f.cluster != nil {
		changed := agents
		for _, key := range slices.SortedFunc(maps.Keys(f.changed), agentKey.compareTo) {
			if a, ok := s.lastOffered[key]; ok && !inHand[key] {
				a.TotalGPUs, a.AllShared = s.listedAgents[key.id].GPUs, s.sharedDevices[key.id]
				changed = append(changed, withoutFree(a.AgentResources))
			}
		}
		if !f.cluster.updateAgents(changed, p, now) {
			f.cluster = nil
		}
	}
	if f.cluster == nil {
		for _, a := range s.knownAgents(inHand) {
			agents = append(agents, withoutFree(a))
		}
		f.cluster = newPartitionedCluster(agents, p, now)
	}
	f.changed = nil
	for key := range inHand { // they will be others, or offer nothing
		f.markChanged(key)
	}
	f.working.copyState(f.cluster)
	return &f.working
}

// withoutFree is an agent that has nothing free.
func withoutFree(a fit.AgentResources) fit.AgentResources {
	a.Offers, a.Free, a.GPUs, a.DeviceIDs, a.Shared = nil, Amount{}, 0, nil, nil
	return a
}

// leftoverOf is what leftovers would say of one agent that offers nothing now.
func (s *State) leftoverOf(a *fit.AgentResources) fit.TaskResources {
	key := agentKey{a.ID, a.Role}
	if !s.isLeftoverValid(key, s.now) {
		return fit.TaskResources{}
	}
	was := s.lastOffered[key]
	return allFree(&was.AgentResources)
}

// isLeftoverValid reports whether what an agent had free when it last offered still
// does: others may have taken it, and one that is shut gives nothing.
func (s *State) isLeftoverValid(key agentKey, now time.Time) bool {
	was, ok := s.lastOffered[key]
	return ok && !was.at.Add(leftoverValidity).Before(now) && !s.isClosed(was.Hostname, was.ID)
}

// allFree is what an agent has free, as a task would have it.
func allFree(a *fit.AgentResources) fit.TaskResources {
	return fit.TaskResources{Amount: a.Free, GPUs: a.GPUs, DeviceIDs: a.DeviceIDs, Shares: freeShares(a.Shared)}
}
