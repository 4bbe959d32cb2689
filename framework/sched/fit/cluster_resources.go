package fit

import (
	"slices"

	"mesos-gpu/gpu"
)

// TaskResources are the resources that a task has on an agent.
type TaskResources struct {
	Amount Amount
	// GPUs counts whole devices. DeviceIDs names them if the agent has IDs.
	GPUs      int
	DeviceIDs []string
	// Shares are its parts of shared devices.
	Shares []gpu.DeviceShare
	Ports  []int
}

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
	h.mask = slices.Concat(h.mask, make([]uint64, wordCount(len(r.uuids))-len(h.mask)))
	for _, id := range want.DeviceIDs {
		s := slotOf(r.uuids, id)
		h.mask[s/64] |= 1 << (s % 64)
	}
	h.ports = slices.Concat(h.ports, want.Ports)
	if len(want.Shares) > 0 {
		h.shares = slices.Concat(h.shares, make([]shareAmount, len(r.uuids)-len(h.shares)))
		for _, p := range want.Shares {
			s := slotOf(r.uuids, p.UUID)
			h.shares[s] = h.shares[s].plus(newShareAmount(p.MemMiB, p.Cores))
		}
	}
	c.reservations = append(c.reservations, h)
	r.reservation = int32(len(c.reservations))
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
	old, whole := *r, slices.Clone(c.wholeMask(r))
	free, all := slices.Clone(c.freeSharesOf(r)), slices.Clone(c.totalSharesOf(r))
	c.layOutDevices(i, slices.Concat(old.uuids, ids))
	if old.shareOffset >= 0 {
		c.trackShares(r)
	}
	moved := make([]int, len(old.uuids))
	for s, id := range old.uuids {
		moved[s] = slotOf(r.uuids, id)
		if whole[s/64]>>(s%64)&1 != 0 {
			c.freeSlot(r, moved[s])
		}
		if old.shareOffset >= 0 {
			c.freeShares[int(r.shareOffset)+moved[s]], c.totalShares[int(r.shareOffset)+moved[s]] = free[s], all[s]
		}
	}
	if r.reservation > 0 {
		c.reservations = append(c.reservations, c.reservations[r.reservation-1].remapSlots(moved, len(r.uuids)))
		r.reservation = int32(len(c.reservations))
	}
}

// remapSlots returns the reservation for a new slot order: to[s] is the new
// slot of s.
func (h reservedResources) remapSlots(to []int, slots int) reservedResources {
	mask := make([]uint64, wordCount(slots))
	for _, s := range listBits(h.mask, nil) {
		mask[to[s]/64] |= 1 << (to[s] % 64)
	}
	if h.shares != nil {
		parts := make([]shareAmount, slots)
		for s, p := range h.shares {
			parts[to[s]] = p
		}
		h.shares = parts
	}
	h.mask = mask
	return h
}

func (c *Cluster) returnPorts(r *agentCapacity, ports []int) {
	if len(ports) > 0 {
		r.ports = addPorts(r.ports, ports)
		r.portCount = int32(countPorts(r.ports))
	}
}
