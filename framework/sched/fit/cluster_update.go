package fit

import "time"

// UpdateAgents brings the cluster up to date: some of its agents are now as told, and
// so are the typical tasks and the time. It is then what NewCluster would make
// of all agents, but has looked at few of them, and is not for a cluster whose
// places somebody took: that would be of a clone. It reports whether it could.
// If not (there are other agents than there were, one goes away for
// maintenance, too much was left behind) the cluster is of no use any more.
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

// updateAgent makes an agent's room anew, where it was if it still has the size. It
// reports whether that was necessary.
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

// prepareFragmentation finds out what typical tasks make of the cluster's GPUs.
func (c *Cluster) prepareFragmentation(list []TypicalTask) {
	if !c.policy.usesTypicalTasks {
		list = nil
	}
	c.index.fragmentation = newFragmentationModel(c.index, list, c.policy.limitsByCPUs)
	if c.policy.limitsByCPUs && c.index.fragmentation.enabled {
		c.index.fragmentation.surveyScarcity(c)
	}
}

// refreshFragmentation brings the fragmentation of all agents up to date. It is the same
// for those in the same state.
func (c *Cluster) refreshFragmentation() {
	c.beginScan()
	for i := range c.capacities {
		r := &c.capacities[i]
		r.fragmentation = c.fragmentationInScan(r)
	}
}

// HasMaintenance reports whether maintenance of an agent is planned.
func (c *Cluster) HasMaintenance() bool { return c.index.hasMaintenance }
