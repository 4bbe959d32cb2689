package sched

import (
	"iter"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
)

// agentCache is the cluster as the last plan saw it, so that a plan reads only agents that have changed. It does not
// affect plans. A zero agentCache is empty; it is emptied when the list of agents, the subscription or the policy changes.
type agentCache struct {
	// cluster has every agent with what its offers had free in the last plan. It is nil if the next plan must read all
	// agents.
	cluster *placement.PartitionedCluster
	// working is the copy of cluster that a plan changes.
	working placement.PartitionedCluster
	// buffers is memory that plans reuse.
	buffers placement.PlanBuffers
	// keys is memory of changedAgents.
	keys []placement.AgentKey
}

// buildCluster returns the cluster with what the held offers have free. Agents without offers have nothing free. The
// caller may change it until the next call.
func (c *agentCache) buildCluster(now time.Time, t *agentTable, roles []string, pool *offerPool, p *placement.Policy) *placement.PartitionedCluster {
	if c.cluster != nil && !c.cluster.UpdateAgents(c.changedAgents(t, pool), p, now) {
		c.cluster = nil
	}
	if c.cluster == nil {
		agents := fit.CollectAgents(pool.heldOffers())
		offered := make(map[placement.AgentKey]bool, len(agents))
		for i := range agents {
			a := &agents[i]
			offered[placement.KeyOfAgent(a)] = true
			t.addListed(a)
		}
		for _, a := range t.knownAgents(offered, roles) {
			agents = append(agents, placement.WithoutFree(a))
		}
		if p.Reclaims() {
			agents = addUnofferedRoles(agents, roles)
		}
		c.cluster = placement.NewPartitionedCluster(agents, p, now)
	}
	clear(t.changedAgents)
	c.working.CopyState(c.cluster)
	return &c.working
}

// changedAgents yields the agents of which offers have arrived or left the pool since the last plan, with what their held
// offers have free.
func (c *agentCache) changedAgents(t *agentTable, pool *offerPool) iter.Seq[fit.AgentResources] {
	return func(yield func(fit.AgentResources) bool) {
		for a := range fit.JoinOffers(pool.heldOffersOf(t.changedAgents)) {
			t.changedAgents[placement.KeyOfAgent(&a)] = true
			t.addListed(&a)
			if !yield(a) {
				return
			}
		}
		c.keys = c.keys[:0]
		for key, hasOffers := range t.changedAgents {
			if !hasOffers && t.lastOffered[key] != nil {
				c.keys = append(c.keys, key)
			}
		}
		slices.SortFunc(c.keys, placement.AgentKey.Compare)
		for _, key := range c.keys {
			a := t.lastOffered[key].AgentResources
			t.addListed(&a)
			if !yield(placement.WithoutFree(a)) {
				return
			}
		}
	}
}

// addUnofferedRoles adds each agent for the roles to which it has not been offered, with nothing free: a role may reclaim
// GPUs of agents that other roles use completely.
func addUnofferedRoles(agents []fit.AgentResources, roles []string) []fit.AgentResources {
	known := make(map[placement.AgentKey]bool, len(agents))
	for i := range agents {
		known[placement.KeyOfAgent(&agents[i])] = true
	}
	for i := range agents {
		for _, role := range roles {
			if key := (placement.AgentKey{ID: agents[i].ID, Role: role}); !known[key] {
				known[key] = true
				a := placement.WithoutFree(agents[i])
				a.Role, a.Reserved, a.Unreserved = role, false, false
				agents = append(agents, a)
			}
		}
	}
	return agents
}
