package fit

import (
	"math/bits"
	"slices"
)

// admits reports whether the agent will do for the class apart from what its
// state says.
func (c *Cluster) admits(i int, r *room, cl *class) bool {
	return r.role == cl.role && r.until >= cl.lasts && r.nports >= cl.ports && (cl.hosts == nil || holdPorts(r.ports, cl.hosts)) && (cl.filter == nil || cl.filter.has(i))
}

// fits reports whether one task of the class finds place on the agent, the
// constraints about its job's other tasks aside.
func (c *Cluster) fits(i int, cl *class) bool {
	r := &c.rooms[i]
	if !r.free.holds(&cl.need) || !c.admits(i, r, cl) {
		return false
	}
	if cl.beyond && r.hold > 0 {
		h := &c.holds[r.hold-1]
		if left := r.free.minus(h.amount); !left.holds(&cl.need) || cl.ports > 0 && !h.leavesPorts(r, cl) {
			return false
		}
	}
	switch {
	case cl.gpus == 0:
		return true
	case cl.shared:
		return c.fitsParts(r, cl)
	default:
		return r.freeGPUs() >= cl.gpus && c.available(i, cl) >= int(cl.gpus)
	}
}

// leavesPorts reports whether a task of the class finds its ports beside those
// that are held.
func (h *hold) leavesPorts(r *room, cl *class) bool {
	free := r.nports
	for _, p := range h.ports {
		if slices.Contains(cl.hosts, p) {
			return false
		}
		if rangeOf(r.ports, p) >= 0 {
			free--
		}
	}
	return free >= cl.ports
}

// available counts the whole GPUs of the agent that one task may have: with a
// wish for topology, the largest group that satisfies it.
func (c *Cluster) available(i int, cl *class) int {
	r := &c.rooms[i]
	m := cl.wish.on(r.kind, c.world)
	if !r.named {
		if !m.counted {
			return 0
		}
		return int(max(c.loose(r, cl), 0))
	}
	n := int(c.loose(r, cl))
	if n <= 0 {
		return 0
	}
	if m.all && !cl.wish.named && cl.wish.topology == "" && !(cl.beyond && r.hold > 0) {
		return n
	}
	mask := c.candidates(r, cl, m)
	if cl.wish.topology == "" {
		return min(n, count(mask))
	}
	return min(n, r.kind.largest(cl.wish.topology, mask))
}

// loose is freeGPUs less what is held back from the class. What is held of
// devices that are not free now costs nothing.
func (c *Cluster) loose(r *room, cl *class) int32 {
	n := r.freeGPUs()
	if !cl.beyond || r.hold == 0 {
		return n
	}
	h := &c.holds[r.hold-1]
	held := h.gpus
	if r.named {
		for w, m := range c.wholeOf(r) {
			if w < len(h.mask) {
				held -= int32(bits.OnesCount64(h.mask[w] &^ m))
			}
		}
	}
	return n - max(held, 0)
}

// candidates are the whole free slots that a task of the class may have. The
// mask is good until the next call.
func (c *Cluster) candidates(r *room, cl *class, m *match) []uint64 {
	c.mask = c.mask[:0]
	for w, free := range c.wholeOf(r) {
		c.mask = append(c.mask, free&m.mask[w])
	}
	if cl.beyond && r.hold > 0 {
		for w, held := range c.holds[r.hold-1].mask {
			c.mask[w] &^= held
		}
	}
	if cl.wish.named {
		c.slots = members(c.mask, c.slots[:0])
		for _, s := range c.slots {
			if !cl.wish.uuid(r.uuids[s]) {
				c.mask[s/64] &^= 1 << (s % 64)
			}
		}
	}
	return c.mask
}

// Useful reports whether the agent has what the demand wants (devices of the
// kind, whole or shared, versions, and what its constraints ask of the agent alone), whether
// or not enough of it is free now.
func (c *Cluster) Useful(i int, d *Demand) bool { return c.useful(i, c.class(d)) }

func (c *Cluster) useful(i int, cl *class) bool {
	r := &c.rooms[i]
	if r.role != cl.role || cl.filter != nil && !cl.filter.has(i) {
		return false
	}
	if cl.gpus == 0 {
		return true
	}
	return c.suited(i, cl) && (r.part < 0 && !cl.shared || c.inKind(r, cl))
}

// inKind reports whether enough devices that would do go whole, or are shared
// and large enough, as the demand has it. It is for agents of which some are.
func (c *Cluster) inKind(r *room, cl *class) bool {
	if !cl.shared && !r.named && r.gpus > 0 {
		return true // by count
	}
	if !cl.shared && !r.kind.listed && !cl.wish.named {
		return true // it may have others than those told of
	}
	n, want := int32(0), int32(1)
	if cl.shared {
		want = cl.gpus
	}
	for _, s := range members(cl.wish.on(r.kind, c.world).mask, nil) {
		switch shared := c.isShared(r, s); {
		case cl.wish.named && !cl.wish.uuid(r.uuids[s]):
		case r.kind.divisible, !cl.shared && !shared:
			n++
		case cl.shared && shared:
			all := c.alls[int(r.part)+s]
			if r.kind.gives(cl.gpus) && enough(cl.share, r.kind, s, all, all) {
				n++
			}
		}
	}
	return n >= want
}

// suited reports whether the agent has devices that would do if they were
// free.
func (c *Cluster) suited(i int, cl *class) bool {
	r := &c.rooms[i]
	m := cl.wish.on(r.kind, c.world)
	switch {
	case !m.some:
		return false
	case !r.named && r.gpus > 0: // by count
		return !cl.wish.named && cl.wish.topology == ""
	case !cl.wish.named:
		return true
	}
	return slices.ContainsFunc(members(m.mask, nil), func(s int) bool { return cl.wish.uuid(r.uuids[s]) })
}
