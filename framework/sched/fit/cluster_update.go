package fit

import "time"

// UpdateAgents replaces some agents, the typical tasks and the time. The result
// equals that of NewCluster, but only the changed agents are computed. No tasks
// may have been placed on this cluster (clones of it do not matter). It returns
// false if it cannot update: an agent is new, maintenance is planned, or too
// many stale values are stored. The cluster must not be used then.
func (c *Cluster) UpdateAgents(changed []AgentResources, typical []TypicalTask, now time.Time) bool {
	if c.index.hasMaintenance || c.index.hasManyStale() {
		return false
	}
	c.index.forgetFields()
	c.rankings.Invalidate(len(c.capacities))
	c.now = now
	var others []int
	for i := range changed {
		at := c.FindAgent(changed[i].ID, changed[i].Role)
		if at < 0 || !changed[i].Unavailable.IsZero() {
			return false
		}
		if c.updateAgent(at, &changed[i]) {
			others = append(others, at)
		}
	}
	c.prepareFragmentation(typical)
	for _, at := range others {
		c.refreshAgent(at)
	}
	if c.index.fragmentation.enabled {
		c.refreshFragmentation()
	}
	return true
}

// updateAgent computes an agent's capacity, in the same memory if its number of
// devices is the same. It reports whether anything changed.
func (c *Cluster) updateAgent(i int, a *AgentResources) bool {
	was := c.index.agents[i]
	c.index.agents[i] = *a
	if was.isUnchanged(a) {
		return false
	}
	if !was.sameHardware(a) {
		c.index.layouts[i].Clear()
	}
	old, whole, parts := c.capacities[i], len(c.wholeBits), len(c.freeShares)
	size, shares := len(c.wholeMask(&old)), len(c.freeSharesOf(&old))
	c.initAgent(i)
	r := &c.capacities[i]
	if len(c.wholeMask(r)) == size {
		copy(c.wholeBits[old.bitOffset:], c.wholeMask(r))
		r.bitOffset, c.wholeBits = old.bitOffset, c.wholeBits[:whole]
	} else {
		c.index.wastedSlots++
	}
	switch n := len(c.freeSharesOf(r)); {
	case n == 0 && shares == 0:
	case n == shares:
		copy(c.freeShares[old.shareOffset:], c.freeSharesOf(r))
		copy(c.totalShares[old.shareOffset:], c.totalSharesOf(r))
		r.shareOffset, c.freeShares, c.totalShares = old.shareOffset, c.freeShares[:parts], c.totalShares[:parts]
	default:
		c.index.wastedSlots++
	}
	return true
}

// prepareFragmentation creates the fragmentation model for the typical tasks.
func (c *Cluster) prepareFragmentation(list []TypicalTask) {
	if !c.policy.usesTypicalTasks {
		list = nil
	}
	c.index.fragmentation = newFragmentationModel(c.index, list, c.policy.limitsByCPUs)
	if c.policy.limitsByCPUs && c.index.fragmentation.enabled {
		c.index.fragmentation.surveyScarcity(c)
	}
}

// refreshFragmentation measures the fragmentation of all agents.
func (c *Cluster) refreshFragmentation() {
	c.beginScan()
	for i := range c.capacities {
		r := &c.capacities[i]
		r.fragmentation = c.fragmentationInScan(r)
	}
}

// HasMaintenance reports whether maintenance of an agent is planned.
func (c *Cluster) HasMaintenance() bool { return c.index.hasMaintenance }
