package fit

import (
	"mesos-gpu/framework/sched/fit/hardware"
	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
)

// PlaceTasks places up to n equal tasks and takes what they need. Each task goes to the agent with the highest score,
// the first by ID if several have it. If it returns fewer placements than n, no agent fits one more task.
// Tasks that need GPUs of the same type are placed on one type, as placeSameType chooses it.
//
//  1. Classify the demand: equal demands share rankings and match results.
//  2. If constraints depend on the job's other tasks, place by them.
//  3. Select the agent with the highest score among those that fit: selectAgent, or bestAgent if the scores were stored
//     by an earlier call of it.
//  4. Take what the task needs, choose devices and ports, and repeat.
func (c *Cluster) PlaceTasks(d *Demand, n int) []Placement {
	if n <= 0 {
		return nil
	}
	if d.Request.NeedsSameType() {
		_, placements := c.placeSameType(d, n)
		return placements
	}
	class := c.classifyDemand(d)
	if len(class.jobConstraints) > 0 {
		return c.placePerJob(d, class, n)
	}
	once := n == 1 && class.uses == 0 && !c.policy.drawsLots
	if once {
		class.uses++
	}
	var placements []Placement
	for len(placements) < n {
		agent := -1
		if once { // a ranking would cost more than it saves
			agent = c.selectAgent(class, nil)
		} else {
			agent = c.bestAgent(class)
		}
		if agent < 0 {
			break
		}
		if placements == nil {
			placements = make([]Placement, 0, min(n, 64))
		}
		placements = append(placements, c.takePlacement(agent, class, d.PortSeed))
	}
	return placements
}

// selectAgent returns the agent with the highest score for one task of the class, the first if several have it, or -1
// if none fits. It visits all agents of the class's role. If scores is not nil, it stores the score of each agent that
// fits there; scores is all 0 before.
func (c *Cluster) selectAgent(cl *demandClass, scores []int64) int {
	best, most := -1, int64(0)
	c.beginScan()
	// The score of an agent that fits is known before the agent is checked, unless the policy or the devices score the task.
	skipLower := scores == nil && c.policy.scoreTask == nil && cl.gpus > 0 && !c.index.hasSharedDevices
	scoreByState := c.policy.isExpensive && !cl.requirement.NamesDevices
	minimum := cl.minimum // a local copy: the loop visits every agent of the role
	for _, id := range c.index.roleAgents(cl.roleID) {
		i := int(id)
		if h := c.hints[i]; h.cpus < minimum.cpus || h.gpus < minimum.gpus || skipLower && c.agentScores[i] <= most {
			continue
		}
		score := int64(0)
		if !scoreByState {
			score = c.scoreAgent(i, cl)
		} else if r := &c.capacities[i]; c.admitsClass(i, r, cl) { // agents in the same state are scored once
			score = c.index.scoreScan.Get(c.stateNumberOf(r), func() int64 { return c.scoreAgent(i, cl) })
		}
		if scores != nil {
			scores[i] = score
		}
		if score > most {
			best, most = i, score
		}
	}
	return best
}

// scoreAgent scores an agent for one task of the class: more is better, and 0
// means that the task does not fit. With every policy, tasks without GPUs
// prefer agents without GPUs, and tasks for whole GPUs prefer agents where they
// need no shared device.
func (c *Cluster) scoreAgent(i int, cl *demandClass) int64 {
	if !c.fitsTask(i, cl) {
		return 0
	}
	var k int64
	if c.policy.scoreTask != nil {
		k = c.policy.scoreTask(c, i, cl)
	} else if k = c.agentScores[i]; cl.wantsShares && c.index.hasSharedDevices {
		k += c.sharePreference(i, cl)
	}
	if cl.gpus == 0 && !c.capacities[i].hardware.HasGPUs || cl.gpus > 0 && !cl.wantsShares && c.index.hasSharedDevices && !c.needsShared(i, cl) {
		k += maxAgentScore
	}
	return k
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
		return r.freeGPUs()+r.idleShared >= cl.gpus && c.availableGPUs(i, cl) >= int(cl.gpus)
	}
}

// admitsClass reports whether the agent accepts the class by what stateNumberOf
// ignores: role, maintenance, ports and constraints.
func (c *Cluster) admitsClass(i int, r *agentCapacity, cl *demandClass) bool {
	return r.roleID == cl.roleID && r.untilMaintenance >= cl.minAvailable && r.portCount >= cl.portCount &&
		(cl.hostPorts == nil || containPorts(r.ports, cl.hostPorts)) && (cl.fixedFilter == nil || cl.fixedFilter.Has(i))
}

// availableGPUs returns how many whole GPUs of the agent one task may get, idle
// shared ones included: for a requirement with a topology, the size of the largest
// group that satisfies it.
func (c *Cluster) availableGPUs(i int, cl *demandClass) int {
	n := c.availableUnshared(i, cl)
	if r := &c.capacities[i]; r.idleShared > 0 {
		return max(n, c.availableWithShared(r, cl))
	}
	return n
}

// availableUnshared is availableGPUs without shared devices.
func (c *Cluster) availableUnshared(i int, cl *demandClass) int {
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

// candidateSlots returns the free slots, none of them shared, that a task of the class may get whole.
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

// takePlacement takes what one task needs of an agent that fits, and returns it.
func (c *Cluster) takePlacement(i int, cl *demandClass, portSeed uint64) Placement {
	r := &c.capacities[i]
	placed := Placement{Agent: i, GPUs: int(cl.gpus)}
	c.updateTaskMix(i, cl, 1)
	r.free = r.free.minus(cl.need)
	if cl.portCount > 0 {
		placed.Ports, r.ports = takePorts(r.ports, int(cl.portCount), cl.hostPorts, c.index.avoidedPorts, portSeed+uint64(r.portCount))
		r.portCount -= cl.portCount
	}
	switch {
	case cl.gpus == 0:
	case cl.wantsShares:
		placed.Shares = c.takeShares(i, cl)
	default:
		c.takeWholeDevices(i, cl, &placed)
	}
	c.agentChanged(i)
	return placed
}

// takeWholeDevices takes the whole devices of one task from an agent that fits: the gpus scalar and the device for each,
// or all of a shared device.
func (c *Cluster) takeWholeDevices(i int, cl *demandClass, placed *Placement) {
	r := &c.capacities[i]
	if !r.hasDeviceIDs {
		r.scalarGPUs -= cl.gpus
		return
	}
	placed.DeviceIDs = make([]string, 0, cl.gpus)
	for _, s := range c.chooseDevices(i, cl).Slots {
		if c.isShared(r, s) {
			placed.Shares = append(placed.Shares, c.takeWholeShare(r, s))
			continue
		}
		c.takeSlot(r, s)
		r.scalarGPUs--
		placed.DeviceIDs = append(placed.DeviceIDs, r.uuids[s])
	}
}

// chooseDevices returns the whole devices for one task on an agent that fits and
// that has device IDs. It chooses shared devices only if the others do not suffice.
func (c *Cluster) chooseDevices(i int, cl *demandClass) hardware.Choice {
	if c.needsShared(i, cl) {
		return c.chooseWithShared(&c.capacities[i], cl)
	}
	r := &c.capacities[i]
	candidates := c.candidateSlots(r, cl, cl.requirement.MatchOn(r.hardware))
	return c.index.hardware.ChooseDevices(r.hardware, int(cl.gpus), candidates, c.wholeMask(r), cl.requirement.Topology)
}

// takeShares takes the shares of one task from an agent that fits.
func (c *Cluster) takeShares(i int, cl *demandClass) []gpu.DeviceShare {
	r := &c.capacities[i]
	slots := c.chooseShareSlots(i, cl)
	parts := make([]gpu.DeviceShare, len(slots))
	for at, s := range slots {
		need, memory := c.shareNeeded(r, cl, s), int64(wholeDevice)
		if !r.hardware.Divisible {
			memory = deviceMemory(r.hardware, s, c.sharesOf(r)[s].total)
		}
		parts[at] = gpu.DeviceShare{
			UUID:         r.uuids[s],
			Type:         r.hardware.Slots[s].Type,
			MemMiB:       int64(need.mem),
			Cores:        int(need.cores),
			MilliDevices: milliOfAmount(need, memory),
			LimitedBy:    r.hardware.ShareLimit,
		}
		if name := r.hardware.Slots[s].Product().String(); name != parts[at].Type {
			parts[at].Product = name
		}
		c.takeShare(r, s, need)
	}
	return parts
}
