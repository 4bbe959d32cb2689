package fit

import "math"

// projectedState is an agent as it would be: free amounts, whole GPUs, and one
// slot with slotMilli thousandths free. slot is -1 if no slot changes.
type projectedState struct {
	free      milliAmount
	wholeGPUs int
	slot      int
	slotMilli int32
}

// fragmentationOf returns the agent's fragmentation times the total weight.
func (c *Cluster) fragmentationOf(r *agentCapacity) float64 {
	if c.isMixed(r) {
		return c.fragmentationBySlot(r, &r.free, c.projectShares(r))
	}
	return c.fragmentationIf(r, &projectedState{free: r.free, wholeGPUs: int(r.freeGPUs()), slot: -1})
}

// isMixed reports whether each of the agent's devices must be measured by itself.
func (c *Cluster) isMixed(r *agentCapacity) bool {
	return r.hasDeviceIDs && (!c.fragmentation.usesAllOrNone(r.hardware) || r.shareOffset >= 0 && !r.hardware.Divisible)
}

// fragmentationIf returns the fragmentation in a projected state, for agents whose
// GPUs are equal or offered by count.
func (c *Cluster) fragmentationIf(r *agentCapacity, s *projectedState) float64 {
	f := c.fragmentation
	p := f.findProfile(r, &s.free)
	idle := float64(s.wholeGPUs) * wholeDevice
	usable := idle * (p.singleGPU[f.levelOf[wholeDevice]] + p.multiGPU[min(s.wholeGPUs, f.maxTaskGPUs)])
	part := func(share int32) {
		idle += float64(share)
		usable += float64(share) * p.singleGPU[f.levelOf[share]]
	}
	if r.partialSlots > 0 {
		for slot, p := range c.sharesOf(r) {
			if p.free.mem > 0 && p.free.mem < wholeDevice && slot != s.slot {
				part(p.free.mem)
			}
		}
	}
	if s.slot >= 0 {
		part(s.slotMilli)
	}
	return idle*f.totalWeight - usable
}

// projectShares returns a copy of what is free of each slot, to subtract from.
// Whole slots have 1000 thousandths. It is valid until the next call.
func (c *Cluster) projectShares(r *agentCapacity) []shareAmount {
	sketch := append(c.shareScratch[:0], make([]shareAmount, len(r.hardware.Slots))...)
	c.shareScratch = sketch
	for s, slot := range c.sharesOf(r) {
		sketch[s] = slot.free
	}
	for s := range c.wholeMask(r).All() {
		sketch[s] = shareAmount{mem: wholeDevice}
	}
	return sketch
}

// fragmentationBySlot returns the fragmentation if free and sketch were free. It
// checks each device for each typical task.
func (c *Cluster) fragmentationBySlot(r *agentCapacity, free *milliAmount, sketch []shareAmount) float64 {
	f := c.fragmentation
	idleMem, idleBoth := 0.0, 0.0
	for s, p := range sketch {
		mem, both := c.idleMilliOf(r, s, p)
		idleMem, idleBoth = idleMem+float64(mem), idleBoth+float64(both)
	}
	sum := 0.0
	for i := range f.tasks {
		t := &f.tasks[i]
		idle, cores := idleMem, t.share.Cores > 0
		if cores {
			idle = idleBoth
		}
		if t.gpus == 0 || !free.canHold(&t.need) {
			sum += idle * t.weight
			continue
		}
		usable, slots := 0.0, int32(0)
		m := t.requirement.MatchOn(r.hardware)
		for s, p := range sketch {
			if !m.Slots.Has(s) {
				continue
			}
			if c.fitsInSlot(r, t, s, p) {
				mem, both := c.idleMilliOf(r, s, p)
				if usable += float64(mem); cores {
					usable += float64(both - mem)
				}
				slots++
			}
		}
		if slots < t.gpus {
			usable = 0
		}
		sum += (idle - usable) * t.weight
	}
	return sum
}

// fitsInSlot reports whether the typical task can use what is free of a slot.
func (c *Cluster) fitsInSlot(r *agentCapacity, t *typicalDemand, s int, free shareAmount) bool {
	switch shares := c.sharesOf(r); {
	case !c.isShared(r, s):
		return free.mem >= t.milliPerDevice && (!t.wantsShares || r.hardware.Divisible)
	case !t.wantsShares:
		return shares[s].isTotalListed && free == shares[s].total
	}
	return free.mem > 0 && r.hardware.CanEnforceShares(t.gpus) && isEnough(t.share, r.hardware, s, free, c.sharesOf(r)[s].total)
}

// fragmentationScore is FGD's score, 0 to 100, for a change of an agent's
// fragmentation. It drops decimals as the published score does, which affects
// results.
func (c *Cluster) fragmentationScore(before, after float64) int64 {
	x := (before - after) / c.fragmentation.totalWeight / wholeDevice
	return int64(100 / (1 + math.Exp(-x)))
}

// scoreFragmentation is the policy fgd.
func scoreFragmentation(c *Cluster, i int, cl *demandClass) int64 {
	if !c.fragmentation.enabled {
		return c.agentScores[i] + c.sharePreference(i, cl)
	}
	r := &c.capacities[i]
	if cl.wantsShares {
		return 1 + c.scoreShareFragmentation(i, cl)
	}
	free := r.free.minus(cl.need)
	if !c.isMixed(r) {
		return 1 + c.fragmentationScore(r.fragmentation, c.fragmentationIf(r, &projectedState{free: free, wholeGPUs: int(r.freeGPUs() - cl.gpus), slot: -1}))
	}
	sketch := c.projectShares(r)
	if cl.gpus > 0 {
		for _, s := range c.chooseDevices(i, cl).Slots {
			sketch[s] = shareAmount{}
		}
	}
	return 1 + c.fragmentationScore(r.fragmentation, c.fragmentationBySlot(r, &free, sketch))
}

// scoreShareFragmentation is FGD's score for a task with shares.
func (c *Cluster) scoreShareFragmentation(i int, cl *demandClass) int64 {
	if cl.gpus == 1 {
		_, score := c.bestSlotByFragmentation(i, cl)
		return score
	}
	r := &c.capacities[i]
	free, sketch := r.free.minus(cl.need), c.projectShares(r)
	for _, s := range c.chooseSeveralSlots(i, cl) {
		sketch[s] = sketch[s].minus(c.shareNeeded(r, cl, s))
	}
	return c.fragmentationScore(r.fragmentation, c.fragmentationBySlot(r, &free, sketch))
}

// chooseLeastFragmentedSlot returns the slot for one share with the highest score.
func chooseLeastFragmentedSlot(c *Cluster, i int, cl *demandClass) int {
	if !c.fragmentation.enabled {
		return chooseSlotByFree(c, i, cl)
	}
	slot, _ := c.bestSlotByFragmentation(i, cl)
	return slot
}

// bestSlotByFragmentation scores each slot that has room for one share, with packingPoints for the policy headroom. Among
// equal slots it returns the first for a divisible agent, as published, and the tightest for others, so that devices stay
// whole for large tasks.
func (c *Cluster) bestSlotByFragmentation(i int, cl *demandClass) (best int, most int64) {
	r := &c.capacities[i]
	best, most = -1, math.MinInt64
	least := int32(math.MaxInt32)
	free, full := r.free.minus(cl.need), int(r.freeGPUs())
	mixed := c.isMixed(r)
	scored := shareAmount{} // what is free of the last slot that was scored
	for slot := range c.shareSlots(r, cl) {
		has := c.sharesOf(r)[slot].free
		if !mixed && has == scored {
			continue // equal slots have the same score
		}
		scored = has
		var after float64
		left := has.minus(c.shareNeeded(r, cl, slot))
		if mixed {
			sketch := c.projectShares(r)
			sketch[slot] = left
			after = c.fragmentationBySlot(r, &free, sketch)
		} else {
			s := projectedState{free: free, wholeGPUs: full, slot: slot, slotMilli: left.mem}
			if left.mem+cl.milliPerDevice == wholeDevice {
				s.wholeGPUs--
			}
			after = c.fragmentationIf(r, &s)
		}
		loose := int32(0)
		if !r.hardware.Divisible {
			loose = c.freeMilliOf(r, slot)
		}
		if score := c.fragmentationScore(r.fragmentation, after) - c.packingPoints(r, slot, left); score > most || score == most && loose < least {
			best, most, least = slot, score, loose
		}
	}
	return best, most
}

// MeasureFragmentation returns how many of the cluster's GPUs are idle and useless to a typical task, weighted by how
// often such a task arrives.
func (c *Cluster) MeasureFragmentation(list []TypicalTask) float64 {
	own := c.fragmentation
	defer func() { c.fragmentation = own }()
	f := newFragmentationModel(&c.index.hardware, list)
	c.fragmentation = f
	if !f.enabled {
		return 0
	}
	sum := 0.0
	for i := range c.capacities {
		sum += c.fragmentationOf(&c.capacities[i])
	}
	return sum / f.totalWeight / wholeDevice
}
