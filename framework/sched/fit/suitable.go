package fit

import (
	"iter"

	"mesos-gpu/framework/sched/fit/hardware"
)

// SuitableFor returns a function that reports whether an agent satisfies the requirements, ignoring what is in use: type of
// devices, whole or shared, versions, and constraints that depend on the agent alone.
func (c *Cluster) SuitableFor(d *Demand) func(i int) bool {
	class := c.classifyDemand(d)
	return func(i int) bool { return c.isSuitableFor(i, class) }
}

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
func (c *agentCapacity) suitableSlots(w *hardware.Requirement) iter.Seq[int] {
	return func(yield func(s int) bool) {
		for s := range w.MatchOn(c.hardware).Slots.All() {
			if w.AcceptsUUID(c.uuids[s]) && !yield(s) {
				return
			}
		}
	}
}

// hasDevicesInMode reports whether there are suitable devices for a class for whole GPUs, or enough shared and large ones
// for one that requests shares. It is for agents that have shared devices or classes that request shares.
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
		switch {
		case r.hardware.Divisible, !cl.wantsShares: // a task may take a shared device whole
			n++
		case c.isShared(r, s):
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
func (c *agentCapacity) hasSuitableDevices(w *hardware.Requirement) bool {
	switch {
	case !w.MatchOn(c.hardware).AnyDevice:
		return false
	case !c.hasDeviceIDs && c.scalarGPUs > 0: // GPUs by count
		return !w.NamesDevices && w.Topology == ""
	case !w.NamesDevices:
		return true
	}
	for range c.suitableSlots(w) {
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
		left = min(left, int64((r.freeGPUs()+r.idleShared)/cl.gpus))
	}
	return int(left)
}
