package fit

import (
	"slices"

	"mesos-gpu/framework/sched/fit/index"
)

// reservedFrom returns what is reserved of an agent from tasks of the class, or nil for nothing.
func (c *Cluster) reservedFrom(cl *demandClass, r *agentCapacity) *reservedResources {
	if !cl.avoidsReserved || r.reservation == 0 {
		return nil
	}
	return &c.reservations[r.reservation-1]
}

// setReservation replaces the reservation of an agent.
func (c *Cluster) setReservation(r *agentCapacity, h reservedResources) {
	c.reservations = append(c.reservations, h)
	r.reservation = int32(len(c.reservations))
}

// remapSlots returns the reservation for a new slot order: to[s] is the new
// slot of s.
func (res reservedResources) remapSlots(to []int, slots int) reservedResources {
	mask := index.NewBits(slots)
	for s := range res.mask.All() {
		mask.Add(to[s])
	}
	res.mask = mask
	if res.shares != nil {
		parts := make([]shareAmount, slots)
		for s, p := range res.shares {
			parts[to[s]] = p
		}
		res.shares = parts
	}
	return res
}

// hasPortsLeft reports whether a task of the class finds its ports among those
// that are not reserved.
func (res *reservedResources) hasPortsLeft(r *agentCapacity, cl *demandClass) bool {
	free := r.portCount
	for _, p := range res.ports {
		if slices.Contains(cl.hostPorts, p) {
			return false
		}
		if findRange(r.ports, p) >= 0 {
			free--
		}
	}
	return free >= cl.portCount
}

// unreservedGPUs returns freeGPUs without those reserved from the class. A
// reserved device that is in use now is not subtracted.
func (c *Cluster) unreservedGPUs(r *agentCapacity, cl *demandClass) int32 {
	n, h := r.freeGPUs(), c.reservedFrom(cl, r)
	if h == nil {
		return n
	}
	held := h.gpus
	if r.hasDeviceIDs {
		whole := c.wholeMask(r)
		for s := range h.mask.All() {
			if !whole.Has(s) {
				held--
			}
		}
	}
	return n - max(held, 0)
}
