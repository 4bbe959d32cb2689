package fit

import (
	"iter"
	"math"
	"slices"
	"time"
)

// NewCluster returns a cluster of what the agents have free, with a policy for
// placing tasks. It does not modify its arguments, and keeps what agents point
// to: the caller must not change that either.
func NewCluster(agents []AgentResources, p PlacementPolicy, now time.Time) *Cluster {
	sorted := slices.Clone(agents)
	slices.SortStableFunc(sorted, func(a, b AgentResources) int {
		return compareAgent(&a, b.ID, b.Role)
	})
	c := &Cluster{index: newClusterIndex(sorted, p.Patterns), policy: p.findScorer(), now: now}
	c.capacities = make([]agentCapacity, len(sorted))
	c.agentScores = make([]int64, len(sorted))
	c.hints = make([]capacityHint, len(sorted))
	for i := range sorted {
		c.initAgent(i)
	}
	c.index.agentsByRole = make([][]int32, len(c.index.roleIDs))
	for i := range c.capacities {
		role := c.capacities[i].roleID
		c.index.agentsByRole[role] = append(c.index.agentsByRole[role], int32(i))
	}
	c.prepareFragmentation(p.Typical)
	for i := range c.capacities {
		c.refreshAgent(i)
	}
	c.rankings.Reset(len(sorted))
	return c
}

// initAgent computes the capacity of an agent from its resources.
func (c *Cluster) initAgent(i int) {
	a := &c.index.agents[i]
	r := &c.capacities[i]
	*r = agentCapacity{
		free: a.Free.toMilli(), untilMaintenance: c.untilMaintenance(a.Unavailable), ports: mergePorts(a.Ports),
		scalarGPUs: int32(min(max(a.GPUs, 0), maxGPUs)), roleID: c.index.roleID(a.Role), hasDeviceIDs: len(a.DeviceIDs) > 0,
	}
	r.portCount = int32(countPorts(r.ports))
	c.index.hasMaintenance = c.index.hasMaintenance || !a.Unavailable.IsZero()
	shares := len(a.Shared) > 0 || len(a.AllShared) > 0
	if !shares {
		c.layOutDevices(i, a.DeviceIDs)
	} else {
		c.index.hasSharedDevices = true
		c.layOutDevices(i, allDeviceIDs(a))
		c.initShared(a, r)
		r.hasDeviceIDs = true
	}
	for _, id := range a.DeviceIDs {
		c.freeSlot(r, slotOf(r.uuids, id))
	}
	r.wholeGPUs = int32(c.wholeMask(r).Len())
	if shares {
		c.countPartialSlots(r)
	}
}

// allDeviceIDs returns all devices that the agent offers, whole or shared, and
// those it is known to share.
func allDeviceIDs(a *AgentResources) []string {
	ids := slices.Clone(a.DeviceIDs)
	for _, list := range [][]SharedDevice{a.Shared, a.AllShared} {
		for _, s := range list {
			ids = append(ids, s.UUID)
		}
	}
	return ids
}

// initShared marks the devices that the agent shares. A device that is also
// offered whole is not shared.
func (c *Cluster) initShared(a *AgentResources, r *agentCapacity) {
	for _, all := range a.AllShared {
		if !slices.Contains(a.DeviceIDs, all.UUID) {
			c.markShared(r, slotOf(r.uuids, all.UUID), newShareAmount(all.MemMiB, all.Cores))
		}
	}
	for _, free := range a.Shared {
		s := slotOf(r.uuids, free.UUID)
		if slices.Contains(a.DeviceIDs, free.UUID) {
			continue
		}
		if !c.isShared(r, s) {
			c.markShared(r, s, shareAmount{})
		}
		c.freeShare(r, s, newShareAmount(free.MemMiB, free.Cores))
	}
}

func (c *Cluster) untilMaintenance(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return int64(t.Sub(c.now))
}

// UpdateAgents replaces some agents, the typical tasks and the time. The result
// equals that of NewCluster, but only the changed agents are computed. No tasks
// may have been placed on this cluster (clones of it do not matter). It returns
// false if it cannot update: an agent is new, maintenance is planned, or too
// many stale values are stored. The cluster must not be used then.
func (c *Cluster) UpdateAgents(changed iter.Seq[AgentResources], typical []TypicalTask, now time.Time) bool {
	if c.index.hasMaintenance || c.index.hasManyStale() {
		return false
	}
	c.index.forgetFields()
	c.rankings.Invalidate(len(c.capacities))
	c.now = now
	var others []int
	at := 0
	for a := range changed {
		at = c.findAgentFrom(at, a.ID, a.Role)
		if at < 0 || !a.Unavailable.IsZero() {
			return false
		}
		if c.updateAgent(at, &a) {
			others = append(others, at)
		}
	}
	c.prepareFragmentation(typical)
	for _, at := range others {
		c.refreshAgent(at)
	}
	if c.fragmentation.enabled {
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
	old, whole, parts := c.capacities[i], len(c.wholeBits), len(c.slotShares)
	size, shares := len(c.wholeMask(&old)), len(c.sharesOf(&old))
	c.initAgent(i)
	r := &c.capacities[i]
	if len(c.wholeMask(r)) == size {
		copy(c.wholeBits[old.bitOffset:], c.wholeMask(r))
		r.bitOffset, c.wholeBits = old.bitOffset, c.wholeBits[:whole]
	} else {
		c.index.wastedSlots++
	}
	switch n := len(c.sharesOf(r)); {
	case n != shares:
		c.index.wastedSlots++
	case n > 0:
		copy(c.slotShares[old.shareOffset:], c.sharesOf(r))
		r.shareOffset, c.slotShares = old.shareOffset, c.slotShares[:parts]
	}
	return true
}
