package fit

import (
	"slices"
	"sort"

	"mesos-gpu/gpu"
)

// PlaceTasks places up to n tasks of the demand, best agent first, and takes what
// they need. Fewer spots than n mean that the rest found no place.
func (c *Cluster) PlaceTasks(d *Demand, n int) []Placement {
	if n <= 0 {
		return nil
	}
	cl := c.classifyDemand(d)
	if len(cl.jobConstraints) > 0 {
		return c.placePerJob(d, cl, n)
	}
	var spots []Placement
	if n == 1 && cl.uses == 0 && !c.policy.drawsLots { // an order that comes once is not worth a ranking
		cl.uses++
		if i := c.scanForBest(cl); i >= 0 {
			spots = []Placement{c.takePlacement(i, cl)}
		}
		return spots
	}
	r := c.rankings.rankingFor(c, cl)
	for len(spots) < n {
		i := r.bestAgent(c, cl)
		if i < 0 {
			break
		}
		if spots == nil {
			spots = make([]Placement, 0, min(n, 64))
		}
		spots = append(spots, c.takePlacement(i, cl))
	}
	return spots
}

// BestScore says how well the best place for one task of the demand suits it, by
// the policy: more is better, and 0 is that there is none. What its job's
// other tasks demand is left out.
func (c *Cluster) BestScore(d *Demand) int64 {
	cl := c.classifyDemand(d)
	r := c.rankings.rankingFor(c, cl)
	i := r.bestAgent(c, cl)
	if i < 0 {
		return 0
	}
	return r.scores[i]
}

// takePlacement gives one task its place on an agent that fits.
func (c *Cluster) takePlacement(i int, cl *demandClass) Placement {
	r := &c.capacities[i]
	spot := Placement{Agent: i, GPUs: int(cl.gpus)}
	c.updateTaskMix(i, cl, 1)
	r.free = r.free.minus(cl.need)
	if cl.portCount > 0 {
		spot.Ports, r.ports = takePorts(r.ports, int(cl.portCount), cl.hostPorts, c.index.avoidedPorts)
		r.portCount -= cl.portCount
	}
	switch {
	case cl.gpus == 0:
	case cl.wantsShares:
		spot.Shares = c.takeShares(i, cl)
	default:
		if r.hasDeviceIDs {
			spot.DeviceIDs = make([]string, cl.gpus)
			for at, s := range c.chooseDevices(i, cl).slots {
				c.takeSlot(r, s)
				spot.DeviceIDs[at] = r.uuids[s]
			}
		}
		r.scalarGPUs -= cl.gpus
	}
	c.agentChanged(i)
	return spot
}

// chooseDevices picks whole devices for one task on an agent that fits and names its
// devices.
func (c *Cluster) chooseDevices(i int, cl *demandClass) chosenDevices {
	r := &c.capacities[i]
	may := c.candidateSlots(r, cl, cl.requirement.matchOn(r.hardware, c.index))
	return c.index.chooseDevices(r.hardware, int(cl.gpus), may, c.wholeMask(r), cl.requirement.topology)
}

// UndoPlacements gives back what Fill took for the demand.
func (c *Cluster) UndoPlacements(d *Demand, spots []Placement) {
	need, cl := d.Amount.toMilli(), c.classifyDemand(d)
	for i := range spots {
		s := &spots[i]
		c.updateTaskMix(s.Agent, cl, -1)
		r := &c.capacities[s.Agent]
		r.free = r.free.plus(need)
		c.returnPorts(r, s.Ports)
		c.returnShares(r, s.Shares)
		if len(s.Shares) == 0 {
			r.scalarGPUs += int32(s.GPUs)
		}
		for _, id := range s.DeviceIDs {
			c.freeSlot(r, slotOf(r.uuids, id))
		}
		c.agentChanged(s.Agent)
	}
}

func (c *Cluster) returnPorts(r *agentCapacity, ports []int) {
	if len(ports) > 0 {
		r.ports = addPorts(r.ports, ports)
		r.portCount = int32(countPorts(r.ports))
	}
}

// TaskResources is what a task has of an agent.
type TaskResources struct {
	Amount Amount
	// GPUs counts whole ones, DeviceIDs names them where they have names.
	GPUs      int
	DeviceIDs []string
	// Shares are what it has of devices that tasks share.
	Shares []gpu.DeviceShare
	Ports  []int
}

// ReleaseResources imagines that a running task has ended, which makes what it has
// free again. An agent that the cluster does not have is ignored.
func (c *Cluster) ReleaseResources(agentID, role string, h TaskResources) {
	if i := c.FindAgent(agentID, role); i >= 0 {
		c.ReleaseAt(i, h)
	}
}

// ReleaseAt is Release for the agent of that index.
func (c *Cluster) ReleaseAt(i int, h TaskResources) {
	c.addUnlistedDevices(i, h.DeviceIDs, h.Shares)
	r := &c.capacities[i]
	r.free = r.free.plus(h.Amount.toMilli())
	c.returnPorts(r, h.Ports)
	r.scalarGPUs = min(r.scalarGPUs+int32(min(max(h.GPUs, 0), maxGPUs)), maxGPUs)
	r.hasDeviceIDs = r.hasDeviceIDs || len(h.DeviceIDs) > 0 || len(h.Shares) > 0
	for _, id := range h.DeviceIDs {
		c.freeSlot(r, slotOf(r.uuids, id))
	}
	c.returnShares(r, h.Shares)
	c.agentChanged(i)
}

// ReserveResources holds back that much of what is free on an agent from demands with
// Beyond. GPUs counts the devices that have names too; one that is not free
// now is held once it is. Who knows that some of it will be given back in
// time passes that much less.
func (c *Cluster) ReserveResources(agentID, role string, want TaskResources) {
	i := c.FindAgent(agentID, role)
	if i < 0 {
		return
	}
	c.addUnlistedDevices(i, want.DeviceIDs, want.Shares)
	r := &c.capacities[i]
	h := reservedResources{}
	if r.reservation > 0 {
		h = c.reservations[r.reservation-1]
	}
	h.amount = h.amount.plus(want.Amount.toMilli())
	h.gpus += int32(min(max(want.GPUs, 0), maxGPUs))
	h.mask = slices.Concat(h.mask, make([]uint64, wordCount(len(r.uuids))-len(h.mask)))
	for _, id := range want.DeviceIDs {
		s := slotOf(r.uuids, id)
		h.mask[s/64] |= 1 << (s % 64)
	}
	h.ports = slices.Concat(h.ports, want.Ports)
	if len(want.Shares) > 0 {
		h.shares = slices.Concat(h.shares, make([]shareAmount, len(r.uuids)-len(h.shares)))
		for _, p := range want.Shares {
			s := slotOf(r.uuids, p.UUID)
			h.shares[s] = h.shares[s].plus(newShareAmount(p.MemMiB, p.Cores))
		}
	}
	c.reservations = append(c.reservations, h)
	r.reservation = int32(len(c.reservations))
	c.agentChanged(i)
}

// FindAgent looks an agent up; -1 if it is not there.
func (c *Cluster) FindAgent(agentID, role string) int {
	agents := c.index.agents
	i := sort.Search(len(agents), func(i int) bool { return compareAgent(&agents[i], agentID, role) >= 0 })
	if i == len(agents) || compareAgent(&agents[i], agentID, role) != 0 {
		return -1
	}
	return i
}

// addUnlistedDevices adds devices that nobody had told of to an agent, taken.
func (c *Cluster) addUnlistedDevices(i int, ids []string, parts []gpu.DeviceShare) {
	r := &c.capacities[i]
	if len(parts) > 0 {
		ids = slices.Clone(ids)
		for _, p := range parts {
			ids = append(ids, p.UUID)
		}
	}
	if !slices.ContainsFunc(ids, func(id string) bool { return slotOf(r.uuids, id) < 0 }) {
		return
	}
	old, whole := *r, slices.Clone(c.wholeMask(r))
	free, all := slices.Clone(c.freeSharesOf(r)), slices.Clone(c.totalSharesOf(r))
	c.layOutDevices(i, slices.Concat(old.uuids, ids))
	if old.shareOffset >= 0 {
		c.trackShares(r)
	}
	moved := make([]int, len(old.uuids))
	for s, id := range old.uuids {
		moved[s] = slotOf(r.uuids, id)
		if whole[s/64]>>(s%64)&1 != 0 {
			c.freeSlot(r, moved[s])
		}
		if old.shareOffset >= 0 {
			c.freeShares[int(r.shareOffset)+moved[s]], c.totalShares[int(r.shareOffset)+moved[s]] = free[s], all[s]
		}
	}
	if r.reservation > 0 {
		c.reservations = append(c.reservations, c.reservations[r.reservation-1].remapSlots(moved, len(r.uuids)))
		r.reservation = int32(len(c.reservations))
	}
}

// remapSlots is the hold where its slots have new places among so many.
func (h reservedResources) remapSlots(to []int, slots int) reservedResources {
	mask := make([]uint64, wordCount(slots))
	for _, s := range listBits(h.mask, nil) {
		mask[to[s]/64] |= 1 << (to[s] % 64)
	}
	if h.shares != nil {
		parts := make([]shareAmount, slots)
		for s, p := range h.shares {
			parts[to[s]] = p
		}
		h.shares = parts
	}
	h.mask = mask
	return h
}
