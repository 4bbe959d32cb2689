package fit

import (
	"slices"

	"mesos-gpu/framework/sched/fit/hardware"
	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
)

// A task for whole GPUs may take all of a shared device that no task uses: all of its memory and of its cores, so that
// Mesos offers nothing of the device until the task ends. Devices that are not shared come first.

// needsShared reports whether a task for whole GPUs needs shared devices of an agent on which it fits.
func (c *Cluster) needsShared(i int, cl *demandClass) bool {
	r := &c.capacities[i]
	return r.idleShared > 0 && (r.freeGPUs() < cl.gpus || c.availableUnshared(i, cl) < int(cl.gpus))
}

// availableWithShared returns how many whole GPUs, shared ones included, one task may get of an agent with idle shared devices.
func (c *Cluster) availableWithShared(r *agentCapacity, cl *demandClass) int {
	candidates := c.unsharedCandidates(r, cl)
	c.addIdleShared(candidates, r, cl)
	if cl.requirement.Topology != "" {
		return r.hardware.LargestGroup(cl.requirement.Topology, candidates)
	}
	return candidates.Len()
}

// unsharedCandidates returns candidateSlots, reduced to the first ones if the agent offers less of the gpus scalar. The mask
// is valid until the next call of either.
func (c *Cluster) unsharedCandidates(r *agentCapacity, cl *demandClass) index.Bits {
	mask := c.candidateSlots(r, cl, cl.requirement.MatchOn(r.hardware))
	left := c.unreservedGPUs(r, cl)
	for s := range mask.All() {
		if left--; left < 0 {
			mask.Remove(s)
		}
	}
	return mask
}

// addIdleShared adds the idle shared slots to a mask that a task of the class may take.
func (c *Cluster) addIdleShared(mask index.Bits, r *agentCapacity, cl *demandClass) {
	m, reserved := cl.requirement.MatchOn(r.hardware), c.reservedFrom(cl, r)
	for s := range c.sharesOf(r) {
		slot := &c.sharesOf(r)[s]
		switch {
		case slot.free.mem == 0 || !slot.isIdle() || !m.Slots.Has(s):
		case cl.requirement.NamesDevices && !cl.requirement.AcceptsUUID(r.uuids[s]):
		case reserved != nil && reserved.hasSlot(s):
		default:
			mask.Add(s)
		}
	}
}

// hasSlot reports whether a slot is reserved, whole or a share of it.
func (res *reservedResources) hasSlot(s int) bool {
	return s/64 < len(res.mask) && res.mask.Has(s) || res.shares != nil && res.shares[s] != shareAmount{}
}

// chooseWithShared returns the devices for a task that needs shared ones. If the GPUs are equal, it takes all that are not
// shared and as few others as possible. Otherwise NVLinks and models decide alone.
func (c *Cluster) chooseWithShared(r *agentCapacity, cl *demandClass) hardware.Choice {
	unshared := slices.Clone(c.unsharedCandidates(r, cl))
	all := slices.Clone(unshared)
	c.addIdleShared(all, r, cl)
	free := slices.Clone(c.wholeMask(r))
	for w := range free {
		free[w] |= all[w]
	}
	n := int(cl.gpus)
	if cl.requirement.Topology != "" || !r.hardware.HaveOneModel(all) {
		return c.index.hardware.ChooseDevices(r.hardware, n, all, free, cl.requirement.Topology)
	}
	for w := range all {
		all[w] &^= unshared[w]
	}
	chosen := slices.AppendSeq(make([]int, 0, n), unshared.All())
	chosen = append(chosen, c.index.hardware.ChooseDevices(r.hardware, n-len(chosen), all, free, "").Slots...)
	slices.Sort(chosen)
	return r.hardware.DescribeChoice(chosen, free)
}

// takeWholeShare takes all of an idle shared slot. It counts as one device, and needs no limit.
func (c *Cluster) takeWholeShare(r *agentCapacity, s int) gpu.DeviceShare {
	all := c.sharesOf(r)[s].total
	c.takeShare(r, s, all)
	return gpu.DeviceShare{
		UUID:         r.uuids[s],
		Type:         r.hardware.Slots[s].Type,
		MemMiB:       int64(all.mem),
		Cores:        int(all.cores),
		MilliDevices: wholeDevice,
	}
}
