package fit

import (
	"slices"
)

// admitsClass reports whether the agent accepts the class by what stateNumberOf
// ignores: role, maintenance, ports and constraints.
func (c *Cluster) admitsClass(i int, r *agentCapacity, cl *demandClass) bool {
	return r.roleID == cl.roleID && r.untilMaintenance >= cl.minAvailable && r.portCount >= cl.portCount && (cl.hostPorts == nil || containPorts(r.ports, cl.hostPorts)) && (cl.fixedFilter == nil || cl.fixedFilter.has(i))
}

// fitsTask reports whether one task of the class fits on the agent. It ignores
// constraints that depend on the job's other tasks.
func (c *Cluster) fitsTask(i int, cl *demandClass) bool {
	r := &c.capacities[i]
	if !r.free.canHold(&cl.need) || !c.admitsClass(i, r, cl) {
		return false
	}
	if cl.avoidsReserved && r.reservation > 0 {
		h := &c.reservations[r.reservation-1]
		if left := r.free.minus(h.amount); !left.canHold(&cl.need) || cl.portCount > 0 && !h.hasPortsLeft(r, cl) {
			return false
		}
	}
	switch {
	case cl.gpus == 0:
		return true
	case cl.wantsShares:
		return c.fitsShares(r, cl)
	default:
		return r.freeGPUs() >= cl.gpus && c.availableGPUs(i, cl) >= int(cl.gpus)
	}
}

// availableGPUs returns how many whole GPUs of the agent one task may get: for a
// requirement with a topology, the size of the largest group that satisfies it.
func (c *Cluster) availableGPUs(i int, cl *demandClass) int {
	r := &c.capacities[i]
	m := cl.requirement.matchOn(r.hardware)
	if !r.hasDeviceIDs {
		if !m.allCounted {
			return 0
		}
		return int(max(c.unreservedGPUs(r, cl), 0))
	}
	n := int(c.unreservedGPUs(r, cl))
	if n <= 0 {
		return 0
	}
	if m.allSlots && !cl.requirement.namesDevices && cl.requirement.topology == "" && !(cl.avoidsReserved && r.reservation > 0) {
		return n
	}
	mask := c.candidateSlots(r, cl, m)
	if cl.requirement.topology == "" {
		return min(n, countBits(mask))
	}
	return min(n, r.hardware.largestGroup(cl.requirement.topology, mask))
}

// candidateSlots returns the whole free slots that a task of the class may get.
// The mask is valid until the next call.
func (c *Cluster) candidateSlots(r *agentCapacity, cl *demandClass, m *requirementMatch) []uint64 {
	c.maskScratch = c.maskScratch[:0]
	for w, free := range c.wholeMask(r) {
		c.maskScratch = append(c.maskScratch, free&m.slotMask[w])
	}
	if cl.avoidsReserved && r.reservation > 0 {
		for w, held := range c.reservations[r.reservation-1].mask {
			c.maskScratch[w] &^= held
		}
	}
	if cl.requirement.namesDevices {
		c.slotScratch = listBits(c.maskScratch, c.slotScratch[:0])
		for _, s := range c.slotScratch {
			if !cl.requirement.acceptsUUID(r.uuids[s]) {
				c.maskScratch[s/64] &^= 1 << (s % 64)
			}
		}
	}
	return c.maskScratch
}

// IsSuitable reports whether the agent satisfies the requirements, ignoring what is in use: type of devices, whole or
// shared, versions, and constraints that depend on the agent alone.
func (c *Cluster) IsSuitable(i int, d *Demand) bool { return c.isSuitableFor(i, c.classifyDemand(d)) }

func (c *Cluster) isSuitableFor(i int, cl *demandClass) bool {
	r := &c.capacities[i]
	if r.roleID != cl.roleID || cl.fixedFilter != nil && !cl.fixedFilter.has(i) {
		return false
	}
	if cl.gpus == 0 {
		return true
	}
	return c.hasSuitableDevices(i, cl) && (r.shareOffset < 0 && !cl.wantsShares || c.hasDevicesInMode(r, cl))
}

// hasDevicesInMode reports whether enough suitable devices are taken whole, or are shared and large enough, as the
// class requires. It is for agents that have shared devices or classes that request shares.
func (c *Cluster) hasDevicesInMode(r *agentCapacity, cl *demandClass) bool {
	if !cl.wantsShares && !r.hasDeviceIDs && r.scalarGPUs > 0 {
		return true // GPUs by count
	}
	if !cl.wantsShares && !r.hardware.hasInventory && !cl.requirement.namesDevices {
		return true // the agent may have devices that it did not report
	}
	n, want := int32(0), int32(1)
	if cl.wantsShares {
		want = cl.gpus
	}
	for _, s := range listBits(cl.requirement.matchOn(r.hardware).slotMask, nil) {
		switch shared := c.isShared(r, s); {
		case cl.requirement.namesDevices && !cl.requirement.acceptsUUID(r.uuids[s]):
		case r.hardware.divisible, !cl.wantsShares && !shared:
			n++
		case cl.wantsShares && shared:
			all := c.totalShares[int(r.shareOffset)+s]
			if r.hardware.canEnforceShares(cl.gpus) && isEnough(cl.share, r.hardware, s, all, all) {
				n++
			}
		}
	}
	return n >= want
}

// hasSuitableDevices reports whether the agent has devices that satisfy the
// class, free or not.
func (c *Cluster) hasSuitableDevices(i int, cl *demandClass) bool {
	r := &c.capacities[i]
	m := cl.requirement.matchOn(r.hardware)
	switch {
	case !m.anyDevice:
		return false
	case !r.hasDeviceIDs && r.scalarGPUs > 0: // GPUs by count
		return !cl.requirement.namesDevices && cl.requirement.topology == ""
	case !cl.requirement.namesDevices:
		return true
	}
	return slices.ContainsFunc(listBits(m.slotMask, nil), func(s int) bool { return cl.requirement.acceptsUUID(r.uuids[s]) })
}

// maxTasksOn returns an upper bound of the tasks that fit on the agent, at most n.
func (c *Cluster) maxTasksOn(i int, cl *demandClass, n int) int {
	r := &c.capacities[i]
	left := int64(n)
	for _, x := range [...][2]int64{
		{r.free.cpus, cl.need.cpus}, {r.free.mem, cl.need.mem}, {r.free.disk, cl.need.disk}, {int64(r.portCount), int64(cl.portCount)},
	} {
		if x[1] > 0 {
			left = min(left, x[0]/x[1])
		}
	}
	if cl.hostPorts != nil {
		left = min(left, 1) // two tasks cannot have the same port
	}
	if cl.gpus > 0 && !cl.wantsShares {
		left = min(left, int64(r.freeGPUs()/cl.gpus))
	}
	return int(left)
}
