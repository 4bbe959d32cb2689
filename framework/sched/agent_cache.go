package sched

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/framework/sched/placement"
)

// agentSnapshot is what an agent had free in one role when its last offer arrived or left, less what was launched.
type agentSnapshot struct {
	fit.AgentResources
	at time.Time
}

// agentCache is the cluster as the last cycle saw it, so that a cycle looks only at agents that have changed. A zero
// agentCache is empty: the next cycle reads all agents.
type agentCache struct {
	// cluster is nil if the next cycle must read all agents.
	cluster *placement.PartitionedCluster
	// changed are the agents without held offers whose snapshots have changed since.
	changed map[placement.AgentKey]bool
	// working is the copy of cluster that a plan changes. buffers and queue are memory for plans.
	working placement.PartitionedCluster
	buffers placement.PlanBuffers
	queue   queueCache
}

// markChanged makes the next cycle read an agent again.
func (c *agentCache) markChanged(key placement.AgentKey) {
	if c.changed == nil {
		c.changed = map[placement.AgentKey]bool{}
	}
	c.changed[key] = true
}

// buildCluster returns the cluster with what the held offers have free. Agents without offers have nothing free. The
// caller may change it until the next call.
func (s *State) buildCluster(now time.Time, offers []Offer, p *placement.Policy) *placement.PartitionedCluster {
	agents := fit.JoinOffers(offers)
	offered := make(map[placement.AgentKey]bool, len(agents))
	for i := range agents {
		a := &agents[i]
		offered[placement.AgentKey{ID: a.ID, Role: a.Role}], a.AllShared = true, s.sharedDevices[a.ID]
	}
	c := &s.cache
	if c.cluster != nil {
		changed := agents
		for _, key := range slices.SortedFunc(maps.Keys(c.changed), placement.AgentKey.Compare) {
			if a, ok := s.lastOffered[key]; ok && !offered[key] {
				a.TotalGPUs, a.AllShared = s.listedAgents[key.ID].GPUs, s.sharedDevices[key.ID]
				changed = append(changed, placement.WithoutFree(a.AgentResources))
			}
		}
		if !c.cluster.UpdateAgents(changed, p, now) {
			c.cluster = nil
		}
	}
	if c.cluster == nil {
		for _, a := range s.knownAgents(offered) {
			agents = append(agents, placement.WithoutFree(a))
		}
		c.cluster = placement.NewPartitionedCluster(agents, p, now)
	}
	c.changed = nil
	for key := range offered { // their next offers will differ
		c.markChanged(key)
	}
	c.working.CopyState(c.cluster)
	return &c.working
}

// leftoverValidity is how long the free resources of an agent's last offer are assumed to be free when they are not
// offered. Other frameworks may have taken them.
const leftoverValidity = time.Minute

// leftoverOf returns what an agent without offers had free in its last offer. It returns nothing once that is no
// longer valid.
func (s *State) leftoverOf(a *fit.AgentResources) fit.TaskResources {
	key := placement.AgentKey{ID: a.ID, Role: a.Role}
	if !s.isLeftoverValid(key, s.now) {
		return fit.TaskResources{}
	}
	last := s.lastOffered[key]
	return placement.FreeResources(&last.AgentResources)
}

func (s *State) isLeftoverValid(key placement.AgentKey, now time.Time) bool {
	last, ok := s.lastOffered[key]
	return ok && !last.at.Add(leftoverValidity).Before(now) && !s.isClosed(last.Hostname, last.ID)
}

// agentsWithLeftovers returns the agents without held offers. They have free what leftoverOf returns.
func (s *State) agentsWithLeftovers(now time.Time) []fit.AgentResources {
	offered := map[placement.AgentKey]bool{}
	for _, h := range s.offers.offers {
		offered[placement.AgentKey{ID: h.AgentID, Role: h.Role}] = true
	}
	all := s.knownAgents(offered)
	for i := range all {
		if a := &all[i]; !s.isLeftoverValid(placement.AgentKey{ID: a.ID, Role: a.Role}, now) {
			pending.ClearFree(a)
		}
	}
	return all
}

// knownAgents returns all agents except some, sorted by id and role: those that have offered, and those that only the
// master's list has, because other frameworks use all of their resources.
func (s *State) knownAgents(except map[placement.AgentKey]bool) []fit.AgentResources {
	all := make([]fit.AgentResources, 0, max(len(s.lastOffered)-len(except), 0))
	hasOffered := map[string]bool{}
	for key, a := range s.lastOffered {
		hasOffered[key.ID] = true
		if !except[key] {
			a.TotalGPUs, a.AllShared = s.listedAgents[key.ID].GPUs, s.sharedDevices[key.ID]
			all = append(all, a.AgentResources)
		}
	}
	for id, a := range s.listedAgents {
		if hasOffered[id] {
			continue
		}
		for _, role := range s.roleNames() {
			if except[placement.AgentKey{ID: id, Role: role}] {
				continue
			}
			all = append(all, fit.AgentResources{
				ID: id, Role: role, Hostname: a.Hostname, Types: a.Types, Inventory: a.Inventory, TotalGPUs: a.GPUs, AllShared: a.Shared,
				Driver: a.Driver, CUDA: a.CUDA, Attributes: a.Attributes, Region: a.Region, Zone: a.Zone,
			})
		}
	}
	slices.SortFunc(all, func(a, b fit.AgentResources) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Role, b.Role)) })
	return all
}

// allAgents returns all agents: with what their held offers have free, or what they last offered.
func (s *State) allAgents() []fit.AgentResources {
	all := fit.JoinOffers(s.heldOffers())
	offered := map[placement.AgentKey]bool{}
	for i := range all {
		a := &all[i]
		offered[placement.AgentKey{ID: a.ID, Role: a.Role}] = true
		a.TotalGPUs, a.AllShared = s.listedAgents[a.ID].GPUs, s.sharedDevices[a.ID]
	}
	return append(all, s.knownAgents(offered)...)
}
