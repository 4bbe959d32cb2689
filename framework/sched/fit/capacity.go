package fit

import (
	"math"
	"slices"

	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
)

// freeGPUs returns how many GPUs that are not shared may be taken. A task takes one of the
// scalar for each GPU, and a device if they have IDs.
func (c *agentCapacity) freeGPUs() int32 {
	if c.hasDeviceIDs {
		return min(c.scalarGPUs, c.wholeGPUs)
	}
	return c.scalarGPUs
}

// layOutDevices assigns slots to the agent's devices, all of them taken.
func (c *Cluster) layOutDevices(i int, extraIDs []string) {
	r := &c.capacities[i]
	l := c.index.findLayout(i, extraIDs)
	r.hardware, r.uuids = l.hardware, l.uuids
	r.shareOffset, r.bitOffset = -1, int32(len(c.wholeBits))
	c.wholeBits = append(c.wholeBits, index.NewBits(len(r.uuids))...)
	if r.hardware.Divisible {
		c.trackShares(r)
	}
}

// slotOf returns the slot of a device on its agent, or -1.
func slotOf(uuids []string, id string) int { return slices.Index(uuids, id) }

func (c *Cluster) wholeMask(r *agentCapacity) index.Bits {
	return c.wholeBits[r.bitOffset : int(r.bitOffset)+index.WordCount(len(r.hardware.Slots))]
}

// freeSlot makes a device free to be taken whole, unless tasks share it.
func (c *Cluster) freeSlot(r *agentCapacity, slot int) {
	if c.isShared(r, slot) {
		return
	}
	c.wholeMask(r).Add(slot)
	if r.hardware.Divisible {
		c.sharesOf(r)[slot].free.mem = wholeDevice
	}
}

// takeSlot marks a whole device as taken.
func (c *Cluster) takeSlot(r *agentCapacity, slot int) {
	c.wholeMask(r).Remove(slot)
	if r.hardware.Divisible {
		c.sharesOf(r)[slot].free.mem = 0
	}
}

// trackShares allocates amounts for an agent's slots, none of which is shared yet.
func (c *Cluster) trackShares(r *agentCapacity) {
	if r.shareOffset < 0 {
		r.shareOffset = int32(len(c.slotShares))
		c.slotShares = append(c.slotShares, make([]slotShares, len(r.hardware.Slots))...)
	}
}

// sharesOf returns the amounts of an agent's slots. It is empty if no slot of the agent was ever shared or divisible.
func (c *Cluster) sharesOf(r *agentCapacity) []slotShares {
	if r.shareOffset < 0 {
		return nil
	}
	return c.slotShares[r.shareOffset : int(r.shareOffset)+len(r.hardware.Slots)]
}

// isShared reports whether tasks share the slot. Divisible slots are not shared.
func (c *Cluster) isShared(r *agentCapacity, s int) bool {
	return r.shareOffset >= 0 && !r.hardware.Divisible && c.slotShares[int(r.shareOffset)+s].total.mem > 0
}

// markShared makes a slot shared. If the total is unknown (0), it is the device's
// memory and all of its cores, and no task gets the whole device.
func (c *Cluster) markShared(r *agentCapacity, s int, all shareAmount) {
	c.trackShares(r)
	isListed := all.mem > 0
	if !isListed {
		all = shareAmount{max(newShareAmount(r.hardware.Slots[s].MemMiB, 0).mem, 1), gpu.AllCores}
	}
	c.sharesOf(r)[s].total, c.sharesOf(r)[s].isTotalListed = all, isListed
}

// freeShare adds to what is free of a shared slot. The total is at least that.
func (c *Cluster) freeShare(r *agentCapacity, s int, p shareAmount) {
	slot := &c.sharesOf(r)[s]
	slot.free = slot.free.plus(p)
	slot.total = shareAmount{max(slot.total.mem, slot.free.mem), max(slot.total.cores, slot.free.cores)}
}

// takeShare takes an amount of a slot. A divisible slot is then no longer whole.
func (c *Cluster) takeShare(r *agentCapacity, s int, p shareAmount) {
	free := &c.sharesOf(r)[s].free
	if r.hardware.Divisible && free.mem == wholeDevice {
		r.scalarGPUs--
		c.wholeMask(r).Remove(s)
	}
	*free = free.minus(p)
}

// returnShares frees the shares of a task. It ignores shares of a device that is
// free as a whole: no task can have them.
func (c *Cluster) returnShares(r *agentCapacity, parts []gpu.DeviceShare) {
	for i := range parts {
		s, p := slotOf(r.uuids, parts[i].UUID), newShareAmount(parts[i].MemMiB, parts[i].Cores)
		isWhole := c.wholeMask(r).Has(s)
		switch {
		case isWhole:
		case r.hardware.Divisible:
			free := &c.sharesOf(r)[s].free
			if free.mem = min(free.mem+p.mem, wholeDevice); free.mem == wholeDevice {
				r.scalarGPUs++
				c.wholeMask(r).Add(s)
			}
		default:
			if !c.isShared(r, s) {
				c.markShared(r, s, shareAmount{})
				c.index.hasSharedDevices = true
			}
			c.freeShare(r, s, p)
		}
	}
}

func (c *Cluster) returnPorts(r *agentCapacity, ports []int) {
	if len(ports) > 0 {
		r.ports = addPorts(r.ports, ports)
		r.portCount = int32(countPorts(r.ports))
	}
}

// countPartialSlots counts the slots of which a share is free, and those of them that are shared and idle.
func (c *Cluster) countPartialSlots(r *agentCapacity) {
	r.partialSlots, r.idleShared = 0, 0
	most := int32(math.MaxInt32)
	if r.hardware.Divisible {
		most = wholeDevice // a free divisible device is a whole one
	}
	for _, slot := range c.sharesOf(r) {
		if slot.free.mem > 0 && slot.free.mem < most {
			r.partialSlots++
			if !r.hardware.Divisible && slot.isIdle() {
				r.idleShared++
			}
		}
	}
}

// freeMilliOf returns how much of a slot is free, independent of its size: the sum
// of the thousandths of memory and of cores.
func (c *Cluster) freeMilliOf(r *agentCapacity, s int) int32 {
	slot := &c.sharesOf(r)[s]
	if r.hardware.Divisible {
		return slot.free.mem
	}
	return milliRatio(slot.free.mem, slot.total.mem) + milliRatio(slot.free.cores, slot.total.cores)
}

// idleMilliOf returns how much of a slot would be idle if free were free of it, in thousandths: its memory for
// tasks without cores, and the larger of memory and cores for tasks with cores.
// For those, what is left of only one of the two is wasted.
func (c *Cluster) idleMilliOf(r *agentCapacity, s int, free shareAmount) (mem, both int32) {
	if !c.isShared(r, s) {
		return free.mem, free.mem // counted in thousandths
	}
	all := c.sharesOf(r)[s].total
	mem = milliRatio(free.mem, all.mem)
	return mem, max(mem, milliRatio(free.cores, all.cores))
}

// idleMilli returns how many GPU thousandths of an agent are free.
func (c *Cluster) idleMilli(r *agentCapacity) int64 {
	idle := int64(r.freeGPUs()) * wholeDevice
	if r.partialSlots == 0 {
		return idle
	}
	for s, slot := range c.sharesOf(r) {
		if slot.free.mem > 0 && (!r.hardware.Divisible || slot.free.mem < wholeDevice) {
			_, both := c.idleMilliOf(r, s, slot.free)
			idle += int64(both)
		}
	}
	return idle
}
