package fit

import (
	"iter"

	"mesos-gpu/framework/sched/fit/hardware"
	"mesos-gpu/framework/sched/fit/index"
)

// admitsClass reports whether the agent accepts the class by what stateNumberOf
// ignores: role, maintenance, ports and constraints.
func (c *Cluster) admitsClass(i int, r *agentCapacity, cl *demandClass) bool {
	return r.roleID == cl.roleID && r.untilMaintenance >= cl.minAvailable && r.portCount >= cl.portCount && (cl.hostPorts == nil || containPorts(r.ports, cl.hostPorts)) && (cl.fixedFilter == nil || cl.fixedFilter.Has(i))
}

// fitsTask reports whether one task of the class fits on the agent. It ignores
// constraints that depend on the job's other tasks.
func (c *Cluster) fitsTask(i int, cl *demandClass) bool {
	r := &c.capacities[i]
	if !r.free.canHold(&cl.need) || !c.admitsClass(i, r, cl) {
		return false
	}
	if h := c.reservedFrom(cl, r); h != nil {
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
	m, want, n := cl.requirement.MatchOn(r.hardware), cl.requirement, max(int(c.unreservedGPUs(r, cl)), 0)
	switch {
	case !r.hasDeviceIDs && !m.AllCounted:
		return 0
	case !r.hasDeviceIDs || n == 0:
		return n
	case want.Topology != "":
		return min(n, r.hardware.LargestGroup(want.Topology, c.candidateSlots(r, cl, m)))
	case m.AllSlots && !want.NamesDevices && c.reservedFrom(cl, r) == nil:
		return n // all free devices are candidates
	default:
		return min(n, c.candidateSlots(r, cl, m).Len())
	}
}

// candidateSlots returns the whole free slots that a task of the class may get.
// The mask is valid until the next call.
func (c *Cluster) candidateSlots(r *agentCapacity, cl *demandClass, m *hardware.Match) index.Bits {
	mask := c.maskScratch[:0]
	for w, free := range c.wholeMask(r) {
		mask = append(mask, free&m.Slots[w])
	}
	c.maskScratch = mask
	if h := c.reservedFrom(cl, r); h != nil {
		for w, held := range h.mask {
			mask[w] &^= held
		}
	}
	if cl.requirement.NamesDevices {
		for s := range mask.All() {
			if !cl.requirement.AcceptsUUID(r.uuids[s]) {
				mask.Remove(s)
			}
		}
	}
	return mask
}

// IsSuitable reports whether the agent satisfies the requirements, ignoring what is in use: type of devices, whole or
// shared, versions, and constraints that depend on the agent alone.
func (c *Cluster) IsSuitable(i int, d *Demand) bool { return c.isSuitableFor(i, c.classifyDemand(d)) }

func (c *Cluster) isSuitableFor(i int, cl *demandClass) bool {
	r := &c.capacities[i]
	if r.roleID != cl.roleID || cl.fixedFilter != nil && !cl.fixedFilter.Has(i) {
		return false
	}
	if cl.gpus == 0 {
		return true
	}
	return r.hasSuitableDevices(cl.requirement) && (r.shareOffset < 0 && !cl.wantsShares || c.hasDevicesInMode(r, cl))
}

// suitableSlots yields the slots whose devices satisfy a requirement, free or not.
func (r *agentCapacity) suitableSlots(w *hardware.Requirement) iter.Seq[int] {
	return func(yield func(s int) bool) {
		for s := range w.MatchOn(r.hardware).Slots.All() {
			if w.AcceptsUUID(r.uuids[s]) && !yield(s) {
				return
			}
		}
	}
}

// hasDevicesInMode reports whether enough suitable devices are taken whole, or are shared and large enough, as the
// class requires. It is for agents that have shared devices or classes that request shares.
func (c *Cluster) hasDevicesInMode(r *agentCapacity, cl *demandClass) bool {
	if !cl.wantsShares && !r.hasDeviceIDs && r.scalarGPUs > 0 {
		return true // GPUs by count
	}
	if !cl.wantsShares && !r.hardware.HasInventory && !cl.requirement.NamesDevices {
		return true // the agent may have devices that it did not report
	}
	n, want := int32(0), int32(1)
	if cl.wantsShares {
		want = cl.gpus
	}
	for s := range r.suitableSlots(cl.requirement) {
		switch shared := c.isShared(r, s); {
		case r.hardware.Divisible, !cl.wantsShares && !shared:
			n++
		case cl.wantsShares && shared:
			all := c.sharesOf(r)[s].total
			if r.hardware.CanEnforceShares(cl.gpus) && isEnough(cl.share, r.hardware, s, all, all) {
				n++
			}
		}
	}
	return n >= want
}

// hasSuitableDevices reports whether the agent has devices that satisfy the
// requirement, free or not.
func (r *agentCapacity) hasSuitableDevices(w *hardware.Requirement) bool {
	switch {
	case !w.MatchOn(r.hardware).AnyDevice:
		return false
	case !r.hasDeviceIDs && r.scalarGPUs > 0: // GPUs by count
		return !w.NamesDevices && w.Topology == ""
	case !w.NamesDevices:
		return true
	}
	for range r.suitableSlots(w) {
		return true
	}
	return false
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
