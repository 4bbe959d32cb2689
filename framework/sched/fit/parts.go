package fit

import (
	"cmp"
	"slices"

	"mesos-gpu/gpu"
)

// fitsParts reports whether as many slots as a task of the class wants have
// enough for their part.
func (c *Cluster) fitsParts(r *room, cl *class) bool {
	if r.part < 0 || !r.kind.gives(cl.gpus) || r.partial == 0 && (!r.kind.divisible || r.freeGPUs() < 1) {
		return false
	}
	if cl.gpus > 1 {
		n := int32(0)
		c.partSlots(r, cl, func(int) bool {
			n++
			return n < cl.gpus
		})
		return n == cl.gpus
	}
	m := cl.wish.on(r.kind, c.world)
	unbroken := r.kind.divisible && c.loose(r, cl) > 0
	for s := range c.partsOf(r) {
		if c.partFits(r, cl, m, s, unbroken) {
			return true
		}
	}
	return false
}

// partSlots calls with each slot that a part for the class may come from,
// until there is no more wanted.
func (c *Cluster) partSlots(r *room, cl *class, more func(s int) bool) {
	m := cl.wish.on(r.kind, c.world)
	unbroken := int32(0)
	if r.kind.divisible {
		unbroken = c.loose(r, cl)
	}
	for s, free := range c.partsOf(r) {
		if !c.partFits(r, cl, m, s, unbroken > 0) {
			continue
		}
		if cl.gpus > 1 && r.kind.divisible && free.mem == wholeDevice {
			unbroken-- // each takes one of the scalar
		}
		if !more(s) {
			return
		}
	}
}

// partFits reports whether a task of the class may have its part of the slot;
// unbroken whether it may break one that is wholly free.
func (c *Cluster) partFits(r *room, cl *class, m *match, s int, unbroken bool) bool {
	free, bit := c.parts[int(r.part)+s], uint64(1)<<(s%64)
	if free.mem <= 0 || r.kind.divisible && (free.mem < cl.milli || free.mem == wholeDevice && !unbroken) || m.mask[s/64]&bit == 0 {
		return false
	}
	if cl.beyond && r.hold > 0 {
		h := &c.holds[r.hold-1]
		if s/64 < len(h.mask) && h.mask[s/64]&bit != 0 {
			return false
		}
		if h.parts != nil {
			free = free.minus(h.parts[s])
		}
	}
	if cl.wish.named && !cl.wish.uuid(r.uuids[s]) {
		return false
	}
	if r.kind.divisible {
		return free.mem >= cl.milli
	}
	all := c.alls[int(r.part)+s]
	return enough(cl.share, r.kind, s, free, all)
}

// partNeeded is what a task of the class takes of a slot.
func (c *Cluster) partNeeded(r *room, cl *class, s int) part {
	if r.kind.divisible {
		return part{mem: cl.milli}
	}
	return needs(cl.share, r.kind, s, c.alls[int(r.part)+s])
}

// takeParts gives one task its parts on an agent that fits.
func (c *Cluster) takeParts(i int, cl *class) []gpu.Part {
	r := &c.rooms[i]
	slots := c.slotsFor(i, cl)
	parts := make([]gpu.Part, len(slots))
	for at, s := range slots {
		need, memory := c.partNeeded(r, cl, s), int64(wholeDevice)
		if !r.kind.divisible {
			memory = memoryOf(r.kind, s, c.alls[int(r.part)+s])
		}
		parts[at] = gpu.Part{
			UUID: r.uuids[s], Type: r.kind.slots[s].short, MemMiB: int64(need.mem), Cores: int(need.cores), Milli: milliOf(need, memory), Limit: r.kind.limit,
		}
		c.takePart(r, s, need)
	}
	return parts
}

// takePart takes some of a slot. A divisible one cannot go whole any more.
func (c *Cluster) takePart(r *room, s int, p part) {
	free := &c.parts[int(r.part)+s]
	if r.kind.divisible && free.mem == wholeDevice {
		r.gpus--
		c.whole[int(r.word)+s/64] &^= 1 << (s % 64)
	}
	*free = free.minus(p)
}

// returnParts makes free again what a task had. Of a slot that goes whole,
// nobody can have had a part.
func (c *Cluster) returnParts(r *room, parts []gpu.Part) {
	for i := range parts {
		s, p := slotOf(r.uuids, parts[i].UUID), partOf(parts[i].MemMiB, parts[i].Cores)
		switch {
		case r.kind.divisible:
			c.returnThousandths(r, s, p.mem)
		case c.isShared(r, s):
			c.givePart(r, s, p)
		case c.wholeOf(r)[s/64]>>(s%64)&1 == 0:
			c.share(r, s, part{})
			c.givePart(r, s, p)
			c.world.shares = true
		}
	}
}

func (c *Cluster) returnThousandths(r *room, s int, n int32) {
	free := &c.parts[int(r.part)+s]
	if free.mem == wholeDevice {
		return
	}
	if free.mem = min(free.mem+n, wholeDevice); free.mem == wholeDevice {
		r.gpus++
		c.whole[int(r.word)+s/64] |= 1 << (s % 64)
	}
}

// preferred is what packing and spreading give an agent beside its plain rank
// for parts of devices: packing prefers a device that is in use, spreading
// one that is not.
func (c *Cluster) preferred(i int, cl *class) int64 {
	r := &c.rooms[i]
	if !cl.shared || r.kind.divisible || c.unused(r, c.slotsFor(i, cl)[0]) != c.policy.roomy {
		return 0
	}
	return maxPlain
}

// slotsFor chooses the slots of one task's parts on an agent that fits. The
// answer is good until the next call.
func (c *Cluster) slotsFor(i int, cl *class) []int {
	if cl.gpus == 1 {
		c.chosen = append(c.chosen[:0], c.policy.share(c, i, cl))
		return c.chosen
	}
	return c.several(i, cl)
}

// way is a slot that a part may come from.
type way struct {
	slot  int
	loose int32
	holds int64 // how many such parts
}

// several takes the tightest slots, or the roomiest, as far as that leaves
// room for as many tasks as any other choice would.
func (c *Cluster) several(i int, cl *class) []int {
	ways := c.waysOf(&c.rooms[i], cl)
	slices.SortFunc(ways, func(a, b way) int {
		order := cmp.Compare(a.loose, b.loose)
		if c.policy.roomy {
			order = -order
		}
		return cmp.Or(order, cmp.Compare(a.slot, b.slot))
	})
	tasks, spare := outlook(ways, int64(cl.gpus))
	c.chosen = c.chosen[:0]
	for _, w := range ways {
		if len(c.chosen) == int(cl.gpus) {
			break
		}
		if w.holds < tasks {
			if spare == 0 {
				continue
			}
			spare--
		}
		c.chosen = append(c.chosen, w.slot)
	}
	return c.chosen
}

func (c *Cluster) waysOf(r *room, cl *class) []way {
	c.ways = c.ways[:0]
	c.partSlots(r, cl, func(s int) bool {
		free, need := c.parts[int(r.part)+s], c.partNeeded(r, cl, s)
		holds := int64(free.mem / need.mem)
		if need.cores > 0 {
			holds = min(holds, int64(free.cores/need.cores))
		}
		c.ways = append(c.ways, way{s, c.looseness(r, s), max(holds, 1)})
		return true
	})
	return c.ways
}

// outlook is for how many tasks of n parts, no two of them of one slot, there
// is room, and how many parts the next task may take of slots that hold fewer
// than one for each of the tasks. Of a slot that holds more, a part costs
// nothing: no task takes two.
func outlook(ways []way, n int64) (tasks, spare int64) {
	room := func(tasks int64) (sum int64) {
		for _, w := range ways {
			sum += min(w.holds, tasks)
		}
		return sum
	}
	least, most := int64(1), room(maxPart)/n // there is room for one
	for least < most {
		if mid := least + (most-least+1)/2; room(mid) >= mid*n {
			least = mid
		} else {
			most = mid - 1
		}
	}
	spare = -(least - 1) * n // what is left for the others beyond what they need
	for _, w := range ways {
		if w.holds < least {
			spare += w.holds
		} else {
			spare += least - 1
		}
	}
	return least, spare
}
