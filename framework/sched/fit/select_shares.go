package fit

import (
	"cmp"
	"math"
	"slices"

	"mesos-gpu/gpu"
)

// takeShares takes the shares of one task from an agent that fits.
func (c *Cluster) takeShares(i int, cl *demandClass) []gpu.DeviceShare {
	r := &c.capacities[i]
	slots := c.chooseShareSlots(i, cl)
	parts := make([]gpu.DeviceShare, len(slots))
	for at, s := range slots {
		need, memory := c.shareNeeded(r, cl, s), int64(wholeDevice)
		if !r.hardware.divisible {
			memory = deviceMemory(r.hardware, s, c.totalShares[int(r.shareOffset)+s])
		}
		parts[at] = gpu.DeviceShare{
			UUID: r.uuids[s], Type: r.hardware.slots[s].gpuType, MemMiB: int64(need.mem), Cores: int(need.cores), MilliDevices: milliOfAmount(need, memory), LimitedBy: r.hardware.shareLimit,
		}
		c.takeShare(r, s, need)
	}
	return parts
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

// sharePreference is what binpack and spread add to an agent's score for shares of
// devices: binpack prefers a device that is in use, spread one that is not.
func (c *Cluster) sharePreference(i int, cl *demandClass) int64 {
	r := &c.capacities[i]
	if !cl.wantsShares || r.hardware.divisible || c.isUnused(r, c.chooseShareSlots(i, cl)[0]) != c.policy.prefersRoomy {
		return 0
	}
	return maxAgentScore
}

// chooseShareSlots chooses the slots of one task's shares on an agent that fits.
// The result is valid until the next call.
func (c *Cluster) chooseShareSlots(i int, cl *demandClass) []int {
	if cl.gpus == 1 {
		c.chosenScratch = append(c.chosenScratch[:0], c.policy.chooseSlot(c, i, cl))
		return c.chosenScratch
	}
	return c.chooseSeveralSlots(i, cl)
}

// slotOption is a slot that has room for a share.
type slotOption struct {
	slot      int
	freeMilli int32
	capacity  int64 // how many such shares fit
}

// chooseSeveralSlots chooses the tightest slots, or the roomiest, without reducing
// the number of such tasks that the agent can run in total.
func (c *Cluster) chooseSeveralSlots(i int, cl *demandClass) []int {
	ways := c.slotOptions(&c.capacities[i], cl)
	slices.SortFunc(ways, func(a, b slotOption) int {
		order := cmp.Compare(a.freeMilli, b.freeMilli)
		if c.policy.prefersRoomy {
			order = -order
		}
		return cmp.Or(order, cmp.Compare(a.slot, b.slot))
	})
	tasks, spare := planFutureTasks(ways, int64(cl.gpus))
	c.chosenScratch = c.chosenScratch[:0]
	for _, w := range ways {
		if len(c.chosenScratch) == int(cl.gpus) {
			break
		}
		if w.capacity < tasks {
			if spare == 0 {
				continue
			}
			spare--
		}
		c.chosenScratch = append(c.chosenScratch, w.slot)
	}
	return c.chosenScratch
}

func (c *Cluster) slotOptions(r *agentCapacity, cl *demandClass) []slotOption {
	c.optionScratch = c.optionScratch[:0]
	c.eachShareSlot(r, cl, func(s int) bool {
		free, need := c.freeShares[int(r.shareOffset)+s], c.shareNeeded(r, cl, s)
		holds := int64(free.mem / need.mem)
		if need.cores > 0 {
			holds = min(holds, int64(free.cores/need.cores))
		}
		c.optionScratch = append(c.optionScratch, slotOption{s, c.freeMilliOf(r, s), max(holds, 1)})
		return true
	})
	return c.optionScratch
}

// planFutureTasks returns how many tasks with n shares each fit, no two shares of
// a task on one slot. spare is how many shares the next task may take of slots
// that hold fewer shares than there are tasks. A share of any other slot costs
// nothing, since no task takes two of it.
func planFutureTasks(ways []slotOption, n int64) (tasks, spare int64) {
	room := func(tasks int64) (sum int64) {
		for _, w := range ways {
			sum += min(w.capacity, tasks)
		}
		return sum
	}
	least, most := int64(1), room(maxShareAmount)/n // at least one task fits
	for least < most {
		if mid := least + (most-least+1)/2; room(mid) >= mid*n {
			least = mid
		} else {
			most = mid - 1
		}
	}
	spare = -(least - 1) * n // minus what the other tasks need
	for _, w := range ways {
		if w.capacity < least {
			spare += w.capacity
		} else {
			spare += least - 1
		}
	}
	return least, spare
}

// chooseTightestSlot returns the slot with the least free that has room.
func chooseTightestSlot(c *Cluster, i int, cl *demandClass) int {
	r := &c.capacities[i]
	best, least := -1, int32(math.MaxInt32)
	c.eachShareSlot(r, cl, func(s int) bool {
		if n := c.freeMilliOf(r, s); n < least {
			best, least = s, n
		}
		return true
	})
	return best
}

// chooseRoomiestSlot returns the slot with the most free.
func chooseRoomiestSlot(c *Cluster, i int, cl *demandClass) int {
	r := &c.capacities[i]
	best, most := -1, int32(-1)
	c.eachShareSlot(r, cl, func(s int) bool {
		if n := c.freeMilliOf(r, s); n > most {
			best, most = s, n
		}
		return true
	})
	return best
}
