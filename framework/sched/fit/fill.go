package fit

import (
	"slices"
	"sort"

	"mesos-gpu/gpu"
)

// Fill places up to n tasks of the demand, best agent first, and takes what
// they need. Fewer spots than n mean that the rest found no place.
func (c *Cluster) Fill(d *Demand, n int) []Spot {
	if n <= 0 {
		return nil
	}
	cl := c.class(d)
	if len(cl.perJob) > 0 {
		return c.fillPerJob(d, cl, n)
	}
	var spots []Spot
	if n == 1 && cl.uses == 0 && !c.policy.lots { // an order that comes once is not worth a ranking
		cl.uses++
		if i := c.bestOnce(cl); i >= 0 {
			spots = []Spot{c.take(i, cl)}
		}
		return spots
	}
	r := c.ranks.of(c, cl)
	for len(spots) < n {
		i := r.best(c, cl)
		if i < 0 {
			break
		}
		if spots == nil {
			spots = make([]Spot, 0, min(n, 64))
		}
		spots = append(spots, c.take(i, cl))
	}
	return spots
}

// Best says how well the best place for one task of the demand suits it, by
// the policy: more is better, and 0 is that there is none. What its job's
// other tasks demand is left out.
func (c *Cluster) Best(d *Demand) int64 {
	cl := c.class(d)
	r := c.ranks.of(c, cl)
	i := r.best(c, cl)
	if i < 0 {
		return 0
	}
	return r.rank[i]
}

// take gives one task its place on an agent that fits.
func (c *Cluster) take(i int, cl *class) Spot {
	r := &c.rooms[i]
	spot := Spot{Agent: i, GPUs: int(cl.gpus)}
	c.meet(i, cl, 1)
	r.free = r.free.minus(cl.need)
	if cl.ports > 0 {
		spot.Ports, r.ports = takePorts(r.ports, int(cl.ports), cl.hosts, c.world.spared)
		r.nports -= cl.ports
	}
	switch {
	case cl.gpus == 0:
	case cl.shared:
		spot.Parts = c.takeParts(i, cl)
	default:
		if r.named {
			spot.DeviceIDs = make([]string, cl.gpus)
			for at, s := range c.choose(i, cl).slots {
				c.takeOff(r, s)
				spot.DeviceIDs[at] = r.uuids[s]
			}
		}
		r.gpus -= cl.gpus
	}
	c.changed(i)
	return spot
}

// choose picks whole devices for one task on an agent that fits and names its
// devices.
func (c *Cluster) choose(i int, cl *class) pick {
	r := &c.rooms[i]
	may := c.candidates(r, cl, cl.wish.on(r.kind, c.world))
	return c.world.pick(r.kind, int(cl.gpus), may, c.wholeOf(r), cl.wish.topology)
}

// Undo gives back what Fill took for the demand.
func (c *Cluster) Undo(d *Demand, spots []Spot) {
	need, cl := d.Amount.milli(), c.class(d)
	for i := range spots {
		s := &spots[i]
		c.meet(s.Agent, cl, -1)
		r := &c.rooms[s.Agent]
		r.free = r.free.plus(need)
		c.returnPorts(r, s.Ports)
		c.returnParts(r, s.Parts)
		if len(s.Parts) == 0 {
			r.gpus += int32(s.GPUs)
		}
		for _, id := range s.DeviceIDs {
			c.give(r, slotOf(r.uuids, id))
		}
		c.changed(s.Agent)
	}
}

func (c *Cluster) returnPorts(r *room, ports []int) {
	if len(ports) > 0 {
		r.ports = givePorts(r.ports, ports)
		r.nports = int32(countPorts(r.ports))
	}
}

// Holding is what a task has of an agent.
type Holding struct {
	Amount Amount
	// GPUs counts whole ones, DeviceIDs names them where they have names.
	GPUs      int
	DeviceIDs []string
	// Parts are what it has of devices that tasks share.
	Parts []gpu.Part
	Ports []int
}

// Release imagines that a running task has ended, which makes what it has
// free again. An agent that the cluster does not have is ignored.
func (c *Cluster) Release(agentID, role string, h Holding) {
	if i := c.Index(agentID, role); i >= 0 {
		c.ReleaseAt(i, h)
	}
}

// ReleaseAt is Release for the agent of that index.
func (c *Cluster) ReleaseAt(i int, h Holding) {
	c.grow(i, h.DeviceIDs, h.Parts)
	r := &c.rooms[i]
	r.free = r.free.plus(h.Amount.milli())
	c.returnPorts(r, h.Ports)
	r.gpus = min(r.gpus+int32(min(max(h.GPUs, 0), maxGPUs)), maxGPUs)
	r.named = r.named || len(h.DeviceIDs) > 0 || len(h.Parts) > 0
	for _, id := range h.DeviceIDs {
		c.give(r, slotOf(r.uuids, id))
	}
	c.returnParts(r, h.Parts)
	c.changed(i)
}

// Reserve holds back that much of what is free on an agent from demands with
// Beyond. GPUs counts the devices that have names too; one that is not free
// now is held once it is. Who knows that some of it will be given back in
// time passes that much less.
func (c *Cluster) Reserve(agentID, role string, want Holding) {
	i := c.Index(agentID, role)
	if i < 0 {
		return
	}
	c.grow(i, want.DeviceIDs, want.Parts)
	r := &c.rooms[i]
	h := hold{}
	if r.hold > 0 {
		h = c.holds[r.hold-1]
	}
	h.amount = h.amount.plus(want.Amount.milli())
	h.gpus += int32(min(max(want.GPUs, 0), maxGPUs))
	h.mask = slices.Concat(h.mask, make([]uint64, words(len(r.uuids))-len(h.mask)))
	for _, id := range want.DeviceIDs {
		s := slotOf(r.uuids, id)
		h.mask[s/64] |= 1 << (s % 64)
	}
	h.ports = slices.Concat(h.ports, want.Ports)
	if len(want.Parts) > 0 {
		h.parts = slices.Concat(h.parts, make([]part, len(r.uuids)-len(h.parts)))
		for _, p := range want.Parts {
			s := slotOf(r.uuids, p.UUID)
			h.parts[s] = h.parts[s].plus(partOf(p.MemMiB, p.Cores))
		}
	}
	c.holds = append(c.holds, h)
	r.hold = int32(len(c.holds))
	c.changed(i)
}

// Index looks an agent up; -1 if it is not there.
func (c *Cluster) Index(agentID, role string) int {
	agents := c.world.agents
	i := sort.Search(len(agents), func(i int) bool { return compareAgent(&agents[i], agentID, role) >= 0 })
	if i == len(agents) || compareAgent(&agents[i], agentID, role) != 0 {
		return -1
	}
	return i
}

// grow adds devices that nobody had told of to an agent, taken.
func (c *Cluster) grow(i int, ids []string, parts []gpu.Part) {
	r := &c.rooms[i]
	if len(parts) > 0 {
		ids = slices.Clone(ids)
		for _, p := range parts {
			ids = append(ids, p.UUID)
		}
	}
	if !slices.ContainsFunc(ids, func(id string) bool { return slotOf(r.uuids, id) < 0 }) {
		return
	}
	old, whole := *r, slices.Clone(c.wholeOf(r))
	free, all := slices.Clone(c.partsOf(r)), slices.Clone(c.allsOf(r))
	c.furnish(i, slices.Concat(old.uuids, ids))
	if old.part >= 0 {
		c.divide(r)
	}
	moved := make([]int, len(old.uuids))
	for s, id := range old.uuids {
		moved[s] = slotOf(r.uuids, id)
		if whole[s/64]>>(s%64)&1 != 0 {
			c.give(r, moved[s])
		}
		if old.part >= 0 {
			c.parts[int(r.part)+moved[s]], c.alls[int(r.part)+moved[s]] = free[s], all[s]
		}
	}
	if r.hold > 0 {
		c.holds = append(c.holds, c.holds[r.hold-1].moved(moved, len(r.uuids)))
		r.hold = int32(len(c.holds))
	}
}

// moved is the hold where its slots have new places among so many.
func (h hold) moved(to []int, slots int) hold {
	mask := make([]uint64, words(slots))
	for _, s := range members(h.mask, nil) {
		mask[to[s]/64] |= 1 << (to[s] % 64)
	}
	if h.parts != nil {
		parts := make([]part, slots)
		for s, p := range h.parts {
			parts[to[s]] = p
		}
		h.parts = parts
	}
	h.mask = mask
	return h
}
