package fit

import "maps"

// CopyFrom puts the cluster into the state of another one and reuses its memory.
func (c *Cluster) CopyFrom(o *Cluster) {
	c.capacities = append(c.capacities[:0], o.capacities...)
	c.index = o.index
	c.copyOtherState(o)
}

// CopyRole is CopyFrom for callers that use one role alone. The agents of other
// roles are not valid afterwards.
func (c *Cluster) CopyRole(o *Cluster, role string) {
	id, ok := o.index.roleIDs[role]
	if c.index != o.index || !ok {
		c.CopyFrom(o)
		return
	}
	for _, i := range o.index.roleAgents(id) {
		c.capacities[i] = o.capacities[i]
	}
	c.copyOtherState(o)
}

// copyOtherState copies all but the capacities.
func (c *Cluster) copyOtherState(o *Cluster) {
	c.policy, c.now, c.fragmentation = o.policy, o.now, o.fragmentation
	c.wholeBits = append(c.wholeBits[:0], o.wholeBits...)
	c.slotShares = append(c.slotShares[:0], o.slotShares...)
	c.agentScores, c.hints = append(c.agentScores[:0], o.agentScores...), append(c.hints[:0], o.hints...)
	c.reservations = append(c.reservations[:0], o.reservations...)
	c.taskMixes = nil
	for _, of := range o.taskMixes {
		c.taskMixes = append(c.taskMixes, maps.Clone(of))
	}
	c.rankings.Invalidate(len(c.capacities))
	c.draws = 0
}
