package fit

import (
	"math"
	"mesos-gpu/gpu"
	"slices"
)

// freeGPUs returns how many whole GPUs may be taken. A task takes one of the
// scalar for each GPU, and a device if they have IDs.
func (r *agentCapacity) freeGPUs() int32 {
	if r.hasDeviceIDs {
		return min(r.scalarGPUs, r.wholeGPUs)
	}
	return r.scalarGPUs
}

// layOutDevices assigns slots to the agent's devices, all of them taken.
func (c *Cluster) layOutDevices(i int, extraIDs []string) {
	r := &c.capacities[i]
	l := c.index.findLayout(i, extraIDs)
	r.hardware, r.uuids = l.hardware, l.uuids
	r.shareOffset, r.bitOffset = -1, int32(len(c.wholeBits))
	c.wholeBits = append(c.wholeBits, make([]uint64, wordCount(len(r.uuids)))...)
	if r.hardware.divisible {
		c.trackShares(r)
	}
}

// slotOf returns the slot of a device on its agent, or -1.
func slotOf(uuids []string, id string) int { return slices.Index(uuids, id) }

func (c *Cluster) wholeMask(r *agentCapacity) []uint64 {
	return c.wholeBits[r.bitOffset : int(r.bitOffset)+wordCount(len(r.hardware.slots))]
}

// freeSlot makes a device free to be taken whole, unless tasks share it.
func (c *Cluster) freeSlot(r *agentCapacity, slot int) {
	if c.isShared(r, slot) {
		return
	}
	c.wholeBits[int(r.bitOffset)+slot/64] |= 1 << (slot % 64)
	if r.hardware.divisible {
		c.freeShares[int(r.shareOffset)+slot].mem = wholeDevice
	}
}

// takeSlot marks a whole device as taken.
func (c *Cluster) takeSlot(r *agentCapacity, slot int) {
	c.wholeBits[int(r.bitOffset)+slot/64] &^= 1 << (slot % 64)
	if r.hardware.divisible {
		c.freeShares[int(r.shareOffset)+slot].mem = 0
	}
}

// trackShares allocates free and total amounts for an agent's slots, none of
// which is shared yet.
func (c *Cluster) trackShares(r *agentCapacity) {
	if r.shareOffset >= 0 {
		return
	}
	r.shareOffset = int32(len(c.freeShares))
	c.freeShares = append(c.freeShares, make([]shareAmount, len(r.hardware.slots))...)
	c.totalShares = append(c.totalShares, make([]shareAmount, len(r.hardware.slots))...)
}

// freeSharesOf returns what is free of each slot, totalSharesOf how much there
// is; both are 0 for slots that tasks take whole. They are empty if no slot of
// the agent was ever shared.
func (c *Cluster) freeSharesOf(r *agentCapacity) []shareAmount {
	if r.shareOffset < 0 {
		return nil
	}
	return c.freeShares[r.shareOffset : int(r.shareOffset)+len(r.hardware.slots)]
}

func (c *Cluster) totalSharesOf(r *agentCapacity) []shareAmount {
	if r.shareOffset < 0 {
		return nil
	}
	return c.totalShares[r.shareOffset : int(r.shareOffset)+len(r.hardware.slots)]
}

// isShared reports whether tasks share the slot. Divisible slots are not shared.
func (c *Cluster) isShared(r *agentCapacity, s int) bool {
	return r.shareOffset >= 0 && !r.hardware.divisible && c.totalShares[int(r.shareOffset)+s].mem > 0
}

// isUnused reports whether no task has a share of the slot.
func (c *Cluster) isUnused(r *agentCapacity, s int) bool {
	return c.freeShares[int(r.shareOffset)+s] == c.totalShares[int(r.shareOffset)+s]
}

// markShared makes a slot shared. If the total is unknown (0), it is the device's
// memory and all of its cores.
func (c *Cluster) markShared(r *agentCapacity, s int, all shareAmount) {
	c.trackShares(r)
	if all.mem == 0 {
		all = shareAmount{max(newShareAmount(r.hardware.slots[s].memMiB, 0).mem, 1), gpu.AllCores}
	}
	c.totalShares[int(r.shareOffset)+s] = all
}

// freeShare adds to what is free of a shared slot. The total is at least that.
func (c *Cluster) freeShare(r *agentCapacity, s int, p shareAmount) {
	free, all := &c.freeShares[int(r.shareOffset)+s], &c.totalShares[int(r.shareOffset)+s]
	*free = free.plus(p)
	all.mem, all.cores = max(all.mem, free.mem), max(all.cores, free.cores)
}

// takeShare takes an amount of a slot. A divisible slot is then no longer whole.
func (c *Cluster) takeShare(r *agentCapacity, s int, p shareAmount) {
	free := &c.freeShares[int(r.shareOffset)+s]
	if r.hardware.divisible && free.mem == wholeDevice {
		r.scalarGPUs--
		c.wholeBits[int(r.bitOffset)+s/64] &^= 1 << (s % 64)
	}
	*free = free.minus(p)
}

// returnShares frees the shares of a task. It ignores shares of a device that is
// free as a whole: no task can have them.
func (c *Cluster) returnShares(r *agentCapacity, parts []gpu.DeviceShare) {
	for i := range parts {
		s, p := slotOf(r.uuids, parts[i].UUID), newShareAmount(parts[i].MemMiB, parts[i].Cores)
		switch {
		case r.hardware.divisible:
			c.returnThousandths(r, s, p.mem)
		case c.isShared(r, s):
			c.freeShare(r, s, p)
		case c.wholeMask(r)[s/64]>>(s%64)&1 == 0:
			c.markShared(r, s, shareAmount{})
			c.freeShare(r, s, p)
			c.index.hasSharedDevices = true
		}
	}
}

func (c *Cluster) returnThousandths(r *agentCapacity, s int, n int32) {
	free := &c.freeShares[int(r.shareOffset)+s]
	if free.mem == wholeDevice {
		return
	}
	if free.mem = min(free.mem+n, wholeDevice); free.mem == wholeDevice {
		r.scalarGPUs++
		c.wholeBits[int(r.bitOffset)+s/64] |= 1 << (s % 64)
	}
}

func (c *Cluster) returnPorts(r *agentCapacity, ports []int) {
	if len(ports) > 0 {
		r.ports = addPorts(r.ports, ports)
		r.portCount = int32(countPorts(r.ports))
	}
}

// countPartialSlots counts the slots of which a share is free.
func (c *Cluster) countPartialSlots(r *agentCapacity) {
	r.partialSlots = 0
	most := int32(math.MaxInt32)
	if r.hardware.divisible {
		most = wholeDevice // a free divisible device is a whole one
	}
	for _, p := range c.freeSharesOf(r) {
		if p.mem > 0 && p.mem < most {
			r.partialSlots++
		}
	}
}

// freeMilliOf returns how much of a slot is free, independent of its size: the sum
// of the thousandths of memory and of cores.
func (c *Cluster) freeMilliOf(r *agentCapacity, s int) int32 {
	free, all := c.freeShares[int(r.shareOffset)+s], c.totalShares[int(r.shareOffset)+s]
	if r.hardware.divisible {
		return free.mem
	}
	return milliRatio(free.mem, all.mem) + milliRatio(free.cores, all.cores)
}

// idleMilliOf returns how much of a slot is idle, in thousandths: its memory for
// tasks without cores, and the larger of memory and cores for tasks with cores.
// For those, what is left of only one of the two is wasted.
func (c *Cluster) idleMilliOf(r *agentCapacity, s int, free shareAmount) (mem, both int32) {
	if !c.isShared(r, s) {
		return free.mem, free.mem // counted in thousandths
	}
	all := c.totalShares[int(r.shareOffset)+s]
	mem = milliRatio(free.mem, all.mem)
	return mem, max(mem, milliRatio(free.cores, all.cores))
}

// idleMilli returns how many GPU thousandths of an agent are free.
func (c *Cluster) idleMilli(r *agentCapacity) int64 {
	idle := int64(r.freeGPUs()) * wholeDevice
	if r.partialSlots == 0 {
		return idle
	}
	for s, p := range c.freeSharesOf(r) {
		if p.mem > 0 && (!r.hardware.divisible || p.mem < wholeDevice) {
			_, both := c.idleMilliOf(r, s, p)
			idle += int64(both)
		}
	}
	return idle
}
