package sched

import (
	"maps"
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
}

// buildCluster returns the cluster with what the held offers have free. Agents without offers have nothing free. The
// caller may change it until the next call.
func (c *agentCache) buildCluster(now time.Time, t *agentTable, roles []string, pool *offerPool, p *placement.Policy) *placement.PartitionedCluster {
	if c.cluster != nil {
		changed, offered := joinHeldOffers(t, pool.heldOffersOf(t.changedAgents))
		for _, key := range slices.SortedFunc(maps.Keys(t.changedAgents), placement.AgentKey.Compare) {
			if last := t.lastOffered[key]; last != nil && !offered[key] {
				a := last.AgentResources
				t.addListed(&a)
				changed = append(changed, placement.WithoutFree(a))
			}
		}
		if !c.cluster.UpdateAgents(changed, p, now) {
			c.cluster = nil
		}
	}
	if c.cluster == nil {
		agents, offered := joinHeldOffers(t, pool.heldOffers())
		for _, a := range t.knownAgents(offered, roles) {
			agents = append(agents, placement.WithoutFree(a))
		}
		if p.DeservesGPUs() {
			agents = addUnofferedRoles(agents, roles)
		}
		c.cluster = placement.NewPartitionedCluster(agents, p, now)
	}
	clear(t.changedAgents)
	c.working.CopyState(c.cluster)
	return &c.working
}

// joinHeldOffers returns the agents of the offers, and their keys.
func joinHeldOffers(t *agentTable, offers []Offer) ([]fit.AgentResources, map[placement.AgentKey]bool) {
	agents := fit.JoinOffers(offers)
	offered := make(map[placement.AgentKey]bool, len(agents))
	for i := range agents {
		a := &agents[i]
		offered[placement.KeyOfAgent(a)], a.AllShared = true, t.sharedDevicesOf(a.ID)
	}
	return agents, offered
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
