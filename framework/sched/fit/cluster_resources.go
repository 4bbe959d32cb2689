package fit

import (
	"slices"

	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
)

// ReleaseResources frees what a task has, as if the task had ended. It ignores an agent that is not in the cluster.
func (c *Cluster) ReleaseResources(agentID, role string, h TaskResources) {
	if i := c.FindAgent(agentID, role); i >= 0 {
		c.ReleaseAt(i, h)
	}
}

// ReleaseAt is ReleaseResources for the agent of that index.
func (c *Cluster) ReleaseAt(i int, h TaskResources) {
	c.addUnlistedDevices(i, h.DeviceIDs, h.Shares)
	r := &c.capacities[i]
	r.free = r.free.plus(h.Amount.toMilli())
	c.returnPorts(r, h.Ports)
	r.scalarGPUs = min(r.scalarGPUs+int32(min(max(h.GPUs, 0), maxGPUs)), maxGPUs)
	r.hasDeviceIDs = r.hasDeviceIDs || len(h.DeviceIDs) > 0 || len(h.Shares) > 0
	for _, id := range h.DeviceIDs {
		c.freeSlot(r, slotOf(r.uuids, id))
	}
	c.returnShares(r, h.Shares)
	c.agentChanged(i)
}

// ReserveResources keeps resources of an agent from demands with AvoidReserved.
// GPUs counts devices with IDs too. A device that is in use is reserved for the
// time when it is free. If some of the resources will be returned in time, the
// caller reserves that much less.
func (c *Cluster) ReserveResources(agentID, role string, want TaskResources) {
	i := c.FindAgent(agentID, role)
	if i < 0 {
		return
	}
	c.addUnlistedDevices(i, want.DeviceIDs, want.Shares)
	r := &c.capacities[i]
	h := reservedResources{}
	if r.reservation > 0 {
		h = c.reservations[r.reservation-1]
	}
	h.amount = h.amount.plus(want.Amount.toMilli())
	h.gpus += int32(min(max(want.GPUs, 0), maxGPUs))
	h.mask = slices.Concat(h.mask, make(index.Bits, index.WordCount(len(r.uuids))-len(h.mask)))
	for _, id := range want.DeviceIDs {
		h.mask.Add(slotOf(r.uuids, id))
	}
	h.ports = slices.Concat(h.ports, want.Ports)
	if len(want.Shares) > 0 {
		h.shares = slices.Concat(h.shares, make([]shareAmount, len(r.uuids)-len(h.shares)))
		for _, p := range want.Shares {
			s := slotOf(r.uuids, p.UUID)
			h.shares[s] = h.shares[s].plus(newShareAmount(p.MemMiB, p.Cores))
		}
	}
	c.setReservation(r, h)
	c.agentChanged(i)
}

// addUnlistedDevices adds slots, all taken, for devices that the agent did not
// list or offer before.
func (c *Cluster) addUnlistedDevices(i int, ids []string, parts []gpu.DeviceShare) {
	r := &c.capacities[i]
	if len(parts) > 0 {
		ids = slices.Clone(ids)
		for _, p := range parts {
			ids = append(ids, p.UUID)
		}
	}
	if !slices.ContainsFunc(ids, func(id string) bool { return slotOf(r.uuids, id) < 0 }) {
		return
	}
	old, whole, shares := *r, slices.Clone(c.wholeMask(r)), slices.Clone(c.sharesOf(r))
	c.layOutDevices(i, slices.Concat(old.uuids, ids))
	if old.shareOffset >= 0 {
		c.trackShares(r)
	}
	moved := make([]int, len(old.uuids))
	for s, id := range old.uuids {
		moved[s] = slotOf(r.uuids, id)
		if whole.Has(s) {
			c.freeSlot(r, moved[s])
		}
		if old.shareOffset >= 0 {
			c.sharesOf(r)[moved[s]] = shares[s]
		}
	}
	if r.reservation > 0 {
		c.setReservation(r, c.reservations[r.reservation-1].remapSlots(moved, len(r.uuids)))
	}
}

// UndoPlacements frees what PlaceTasks took for the demand.
func (c *Cluster) UndoPlacements(d *Demand, placements []Placement) {
	cl := c.classifyDemand(d)
	for _, s := range placements {
		c.updateTaskMix(s.Agent, cl, -1)
		c.ReleaseAt(s.Agent, TaskResources{
			Amount:    d.Amount,
			GPUs:      s.GPUs - len(s.Shares),
			DeviceIDs: s.DeviceIDs,
			Shares:    s.Shares,
			Ports:     s.Ports,
		})
	}
}

// AvoidPorts sets ports that tasks without required ports get last, because
// another job waits for these numbers.
func (c *Cluster) AvoidPorts(ports []int) {
	c.index.avoidedPorts = slices.Clone(ports)
	slices.Sort(c.index.avoidedPorts)
}
