package fit

// fitsShares reports whether enough slots have room for the shares of a task of
// the class.
func (c *Cluster) fitsShares(r *agentCapacity, cl *demandClass) bool {
	if r.shareOffset < 0 || !r.hardware.canEnforceShares(cl.gpus) || r.partialSlots == 0 && (!r.hardware.divisible || r.freeGPUs() < 1) {
		return false
	}
	if cl.gpus > 1 {
		n := int32(0)
		c.eachShareSlot(r, cl, func(int) bool {
			n++
			return n < cl.gpus
		})
		return n == cl.gpus
	}
	m := cl.requirement.matchOn(r.hardware)
	unbroken := r.hardware.divisible && c.unreservedGPUs(r, cl) > 0
	for s := range c.freeSharesOf(r) {
		if c.slotFitsShare(r, cl, m, s, unbroken) {
			return true
		}
	}
	return false
}

// eachShareSlot calls more with each slot that has room for a share of the class,
// until more returns false.
func (c *Cluster) eachShareSlot(r *agentCapacity, cl *demandClass, more func(s int) bool) {
	m := cl.requirement.matchOn(r.hardware)
	unbroken := int32(0)
	if r.hardware.divisible {
		unbroken = c.unreservedGPUs(r, cl)
	}
	for s, free := range c.freeSharesOf(r) {
		if !c.slotFitsShare(r, cl, m, s, unbroken > 0) {
			continue
		}
		if cl.gpus > 1 && r.hardware.divisible && free.mem == wholeDevice {
			unbroken-- // each takes one of the gpus scalar
		}
		if !more(s) {
			return
		}
	}
}

// slotFitsShare reports whether the slot has room for a share of the class.
// unbroken is set if the share may come from a device that is wholly free.
func (c *Cluster) slotFitsShare(r *agentCapacity, cl *demandClass, m *requirementMatch, s int, unbroken bool) bool {
	free, bit := c.freeShares[int(r.shareOffset)+s], uint64(1)<<(s%64)
	if free.mem <= 0 || r.hardware.divisible && (free.mem < cl.milliPerDevice || free.mem == wholeDevice && !unbroken) || m.slotMask[s/64]&bit == 0 {
		return false
	}
	if cl.avoidsReserved && r.reservation > 0 {
		h := &c.reservations[r.reservation-1]
		if s/64 < len(h.mask) && h.mask[s/64]&bit != 0 {
			return false
		}
		if h.shares != nil {
			free = free.minus(h.shares[s])
		}
	}
	if cl.requirement.namesDevices && !cl.requirement.acceptsUUID(r.uuids[s]) {
		return false
	}
	if r.hardware.divisible {
		return free.mem >= cl.milliPerDevice
	}
	all := c.totalShares[int(r.shareOffset)+s]
	return isEnough(cl.share, r.hardware, s, free, all)
}

// shareNeeded returns what a task of the class takes of a slot.
func (c *Cluster) shareNeeded(r *agentCapacity, cl *demandClass, s int) shareAmount {
	if r.hardware.divisible {
		return shareAmount{mem: cl.milliPerDevice}
	}
	return shareTaken(cl.share, r.hardware, s, c.totalShares[int(r.shareOffset)+s])
}
