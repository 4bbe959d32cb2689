package fit

import (
	"cmp"
	"math"
	"slices"
)

// chooseShareSlots chooses the slots of one task's shares on an agent that fits.
// The result is valid until the next call.
func (c *Cluster) chooseShareSlots(i int, cl *demandClass) []int {
	if cl.gpus > 1 {
		return c.chooseSeveralSlots(i, cl)
	}
	choose := c.policy.chooseSlot
	if choose == nil {
		choose = chooseSlotByFree
	}
	c.chosenScratch = append(c.chosenScratch[:0], choose(c, i, cl))
	return c.chosenScratch
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
	for s := range c.shareSlots(r, cl) {
		free, need := c.sharesOf(r)[s].free, c.shareNeeded(r, cl, s)
		holds := int64(free.mem / need.mem)
		if need.cores > 0 {
			holds = min(holds, int64(free.cores/need.cores))
		}
		c.optionScratch = append(c.optionScratch, slotOption{s, c.freeMilliOf(r, s), max(holds, 1)})
	}
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
		spare += min(w.capacity, least-1)
	}
	return least, spare
}

// chooseSlotByFree returns the slot with the least free that has room, or with the most if the policy prefers that.
func chooseSlotByFree(c *Cluster, i int, cl *demandClass) int {
	r := &c.capacities[i]
	best, most := -1, int32(math.MinInt32)
	for s := range c.shareSlots(r, cl) {
		n := c.freeMilliOf(r, s)
		if !c.policy.prefersRoomy {
			n = -n
		}
		if n > most {
			best, most = s, n
		}
	}
	return best
}
