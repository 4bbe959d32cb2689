package fit

import (
	"math/bits"
	"slices"
)

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

// hasPortsLeft reports whether a task of the class finds its ports among those
// that are not reserved.
func (h *reservedResources) hasPortsLeft(r *agentCapacity, cl *demandClass) bool {
	free := r.portCount
	for _, p := range h.ports {
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
	n := r.freeGPUs()
	if !cl.avoidsReserved || r.reservation == 0 {
		return n
	}
	h := &c.reservations[r.reservation-1]
	held := h.gpus
	if r.hasDeviceIDs {
		for w, m := range c.wholeMask(r) {
			if w < len(h.mask) {
				held -= int32(bits.OnesCount64(h.mask[w] &^ m))
			}
		}
	}
	return n - max(held, 0)
}
