package fit

import "slices"

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
	spot := Spot{Agent: i, GPUs: int(cl.gpus), Milli: int(cl.milli)}
	c.meet(i, cl, 1)
	r.free = r.free.minus(cl.need)
	if cl.ports > 0 {
		spot.Ports, r.ports = takePorts(r.ports, int(cl.ports))
		r.nports -= cl.ports
	}
	switch {
	case cl.gpus == 0:
	case cl.milli > 0:
		s := c.policy.share(c, i, cl)
		if c.shares[int(r.dev)+s] == wholeDevice {
			r.gpus--
		}
		c.takeOff(r, s, int16(cl.milli))
		spot.DeviceIDs = []string{r.uuids[s]}
	default:
		if r.named {
			spot.DeviceIDs = make([]string, cl.gpus)
			for at, s := range c.choose(i, cl).slots {
				c.takeOff(r, s, wholeDevice)
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

// shareSlots calls with each slot that a share of the class may come from.
func (c *Cluster) shareSlots(i int, cl *class, with func(s int, free int16)) {
	r := &c.rooms[i]
	m := cl.wish.on(r.kind, c.world)
	unbroken := c.loose(r, cl) > 0
	for s, free := range c.sharesOf(r) {
		if c.shareable(r, cl, m, s, unbroken) {
			with(s, free)
		}
	}
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
		milli := int16(wholeDevice)
		if s.Milli > 0 {
			milli = int16(s.Milli)
		} else {
			r.gpus += int32(s.GPUs)
		}
		for _, id := range s.DeviceIDs {
			slot := slotOf(r.uuids, id)
			c.give(r, slot, milli)
			if s.Milli > 0 && c.shares[int(r.dev)+slot] == wholeDevice {
				r.gpus++
			}
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

// Release imagines that a running task has ended, which makes what it has
// free again. An agent that the cluster does not have is ignored.
func (c *Cluster) Release(agentID, role string, a Amount, gpus int, deviceIDs []string, ports []int) {
	i := c.find(agentID, role)
	if i < 0 {
		return
	}
	c.grow(i, deviceIDs)
	r := &c.rooms[i]
	r.free = r.free.plus(a.milli())
	c.returnPorts(r, ports)
	r.gpus = min(r.gpus+int32(min(max(gpus, 0), maxGPUs)), maxGPUs)
	r.named = r.named || len(deviceIDs) > 0
	for _, id := range deviceIDs {
		c.give(r, slotOf(r.uuids, id), wholeDevice)
	}
	c.changed(i)
}

// Reserve holds back that much of what is free on an agent from demands with
// Beyond. GPUs counts the devices that have names too; one that is not free
// now is held once it is. Who knows that some of it will be given back in
// time passes that much less.
func (c *Cluster) Reserve(agentID, role string, a Amount, gpus int, deviceIDs []string) {
	i := c.find(agentID, role)
	if i < 0 {
		return
	}
	c.grow(i, deviceIDs)
	r := &c.rooms[i]
	h := hold{}
	if r.hold > 0 {
		h = c.holds[r.hold-1]
	}
	h.amount = h.amount.plus(a.milli())
	h.gpus += int32(min(max(gpus, 0), maxGPUs))
	h.mask = slices.Concat(h.mask, make([]uint64, words(len(r.uuids))-len(h.mask)))
	for _, id := range deviceIDs {
		s := slotOf(r.uuids, id)
		h.mask[s/64] |= 1 << (s % 64)
	}
	c.holds = append(c.holds, h)
	r.hold = int32(len(c.holds))
	c.changed(i)
}

// find looks an agent up; -1 if it is not there.
func (c *Cluster) find(agentID, role string) int {
	agents := c.world.agents
	i, ok := slices.BinarySearchFunc(agents, 0, func(a Agent, _ int) int {
		return compareAgent(&a, agentID, role)
	})
	if !ok {
		return -1
	}
	return i
}

// grow adds devices that nobody had told of to an agent, taken.
func (c *Cluster) grow(i int, ids []string) {
	r := &c.rooms[i]
	known := func(id string) bool { return slotOf(r.uuids, id) >= 0 }
	if !slices.ContainsFunc(ids, func(id string) bool { return !known(id) }) {
		return
	}
	old, shares := *r, slices.Clone(c.sharesOf(r))
	c.furnish(i, slices.Concat(old.uuids, ids))
	for s, id := range old.uuids {
		if shares[s] > 0 {
			c.give(r, slotOf(r.uuids, id), shares[s])
		}
	}
	if r.hold == 0 {
		return
	}
	h := c.holds[r.hold-1]
	mask := make([]uint64, words(len(r.uuids)))
	for _, s := range members(h.mask, nil) {
		at := slotOf(r.uuids, old.uuids[s])
		mask[at/64] |= 1 << (at % 64)
	}
	h.mask = mask
	c.holds = append(c.holds, h)
	r.hold = int32(len(c.holds))
}
