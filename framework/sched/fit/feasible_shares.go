package fit

import (
	"iter"

	"mesos-gpu/framework/sched/fit/hardware"
)

// fitsShares reports whether enough slots have room for the shares of a task of
// the class.
func (c *Cluster) fitsShares(r *agentCapacity, cl *demandClass) bool {
	if r.shareOffset < 0 || !r.hardware.CanEnforceShares(cl.gpus) || r.partialSlots == 0 && (!r.hardware.Divisible || r.freeGPUs() < 1) {
		return false
	}
	n := int32(0)
	for range c.shareSlots(r, cl) {
		if n++; n == cl.gpus {
			return true
		}
	}
	return false
}

// shareSlots yields the slots that have room for a share of the class. A task takes one of the gpus scalar for each
// divisible device that it breaks, so the slots yielded break at most as many as are free.
func (c *Cluster) shareSlots(r *agentCapacity, cl *demandClass) iter.Seq[int] {
	return func(yield func(s int) bool) {
		m := cl.requirement.MatchOn(r.hardware)
		unbroken := int32(0)
		if r.hardware.Divisible {
			unbroken = c.unreservedGPUs(r, cl)
		}
		for s, slot := range c.sharesOf(r) {
			if !c.slotFitsShare(r, cl, m, s, unbroken > 0) {
				continue
			}
			if cl.gpus > 1 && r.hardware.Divisible && slot.free.mem == wholeDevice {
				unbroken--
			}
			if !yield(s) {
				return
			}
		}
	}
}

// slotFitsShare reports whether the slot has room for a share of the class.
// unbroken is set if the share may come from a device that is wholly free.
func (c *Cluster) slotFitsShare(r *agentCapacity, cl *demandClass, m *hardware.Match, s int, unbroken bool) bool {
	slot := &c.sharesOf(r)[s]
	free := slot.free
	if free.mem <= 0 || !m.Slots.Has(s) || r.hardware.Divisible && (free.mem < cl.milliPerDevice || free.mem == wholeDevice && !unbroken) {
		return false
	}
	if h := c.reservedFrom(cl, r); h != nil {
		if s/64 < len(h.mask) && h.mask.Has(s) {
			return false
		}
		if h.shares != nil {
			free = free.minus(h.shares[s])
		}
	}
	if cl.requirement.NamesDevices && !cl.requirement.AcceptsUUID(r.uuids[s]) {
		return false
	}
	if r.hardware.Divisible {
		return free.mem >= cl.milliPerDevice
	}
	return isEnough(cl.share, r.hardware, s, free, slot.total)
}

// shareNeeded returns what a task of the class takes of a slot.
func (c *Cluster) shareNeeded(r *agentCapacity, cl *demandClass, s int) shareAmount {
	if r.hardware.Divisible {
		return shareAmount{mem: cl.milliPerDevice}
	}
	return shareTaken(cl.share, r.hardware, s, c.sharesOf(r)[s].total)
}
