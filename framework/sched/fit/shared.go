package fit

import (
	"cmp"
	"slices"

	"mesos-gpu/gpu"
)

// Shared is some of a device that tasks share: memory in MiB, and cores in
// percent of one device's.
type Shared struct {
	UUID   string
	MemMiB int64
	Cores  int
}

// Thousandths asks for so many thousandths of each device of a Divisible
// agent.
func Thousandths(n int) gpu.Share { return gpu.Share{MemMiB: int64(n)} }

// joinShared adds up what several offers have of one device, and sorts by
// UUID.
func joinShared(list []Shared) []Shared {
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b Shared) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.MemMiB, b.MemMiB), cmp.Compare(a.Cores, b.Cores))
	})
	joined := list[:1]
	for _, s := range list[1:] {
		if last := &joined[len(joined)-1]; last.UUID == s.UUID {
			last.MemMiB += s.MemMiB
			last.Cores += s.Cores
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// Less is what the list has beside the parts that somebody took. It does not
// modify the list.
func Less(list []Shared, parts []gpu.Part) []Shared {
	left := slices.Clone(list)
	for _, p := range parts {
		if i := slices.IndexFunc(left, func(s Shared) bool { return s.UUID == p.UUID }); i >= 0 {
			left[i].MemMiB -= p.MemMiB
			left[i].Cores -= p.Cores
		}
	}
	return left
}

// part is some of a slot: MiB of memory and percent of cores. Of a divisible
// one, memory counts thousandths.
type part struct{ mem, cores int32 }

func (p part) plus(q part) part  { return part{p.mem + q.mem, p.cores + q.cores} }
func (p part) minus(q part) part { return part{p.mem - q.mem, p.cores - q.cores} }

// maxPart bounds what a scalar may mean.
const maxPart = 1 << 28

func partOf(mem int64, cores int) part {
	return part{int32(min(max(mem, 0), maxPart)), int32(min(max(cores, 0), maxPart))}
}

// divide gives a room books for parts of its slots, none of which is shared
// yet.
func (c *Cluster) divide(r *room) {
	if r.part >= 0 {
		return
	}
	r.part = int32(len(c.parts))
	c.parts = append(c.parts, make([]part, len(r.kind.slots))...)
	c.alls = append(c.alls, make([]part, len(r.kind.slots))...)
}

// partsOf are what is free of each slot, allsOf what there is of it: nothing
// of slots that go whole. Both are empty where no slot was ever shared.
func (c *Cluster) partsOf(r *room) []part {
	if r.part < 0 {
		return nil
	}
	return c.parts[r.part : int(r.part)+len(r.kind.slots)]
}

func (c *Cluster) allsOf(r *room) []part {
	if r.part < 0 {
		return nil
	}
	return c.alls[r.part : int(r.part)+len(r.kind.slots)]
}

// isShared reports whether tasks share the slot.
func (c *Cluster) isShared(r *room, s int) bool {
	return r.part >= 0 && !r.kind.divisible && c.alls[int(r.part)+s].mem > 0
}

// share makes a slot one that tasks share, of which there is so much. Where
// nobody told, that is the device's memory and its cores.
func (c *Cluster) share(r *room, s int, all part) {
	c.divide(r)
	if all.mem == 0 {
		all = part{max(partOf(r.kind.slots[s].mem, 0).mem, 1), gpu.AllCores}
	}
	c.alls[int(r.part)+s] = all
}

// givePart makes some of a shared slot free. There is at least what is free.
func (c *Cluster) givePart(r *room, s int, p part) {
	free, all := &c.parts[int(r.part)+s], &c.alls[int(r.part)+s]
	*free = free.plus(p)
	all.mem, all.cores = max(all.mem, free.mem), max(all.cores, free.cores)
}

// openShared makes the slots of a room shared that its agent shares.
func (c *Cluster) openShared(a *Agent, r *room) {
	for _, all := range a.AllShared {
		if !slices.Contains(a.DeviceIDs, all.UUID) {
			c.share(r, slotOf(r.uuids, all.UUID), partOf(all.MemMiB, all.Cores))
		}
	}
	for _, free := range a.Shared {
		s := slotOf(r.uuids, free.UUID)
		if slices.Contains(a.DeviceIDs, free.UUID) {
			continue
		}
		if !c.isShared(r, s) {
			c.share(r, s, part{})
		}
		c.givePart(r, s, partOf(free.MemMiB, free.Cores))
	}
}

// memoryOf is the device's own, which percents are of: by inventory, else all
// that there is to share.
func memoryOf(k *kind, s int, all part) int64 {
	if k.slots[s].mem > 0 {
		return k.slots[s].mem
	}
	return int64(all.mem)
}

// alone reports whether a share of a device of that kind leaves nothing to
// others. A MIG device goes to one task, whatever part of it would do.
func alone(share gpu.Share, k *kind) bool { return share.Exclusive() || k.limit == gpu.HeldByMIG }

// needs is what the share takes of a slot.
func needs(share gpu.Share, k *kind, s int, all part) part {
	if alone(share, k) {
		return all
	}
	return wanted(share, k, s, all)
}

// wanted is the least of a slot that the share is content with.
func wanted(share gpu.Share, k *kind, s int, all part) part {
	if share.Exclusive() {
		return all
	}
	return partOf(max(share.MemOf(memoryOf(k, s, all)), 1), share.Cores)
}

// gives reports whether the agent can hold one task to parts of so many
// devices: a process reaches one MPS server, and each device has its own.
func (k *kind) gives(devices int32) bool { return devices <= 1 || k.limit != gpu.HeldByMPS }

// thousandthsOf is what a share takes of a divisible device.
func thousandthsOf(share gpu.Share) int32 {
	return int32(min(max(share.MemOf(wholeDevice), 1), wholeDevice))
}

// enough reports whether so much that is free will do: all of the slot for
// one who gets it alone, and for who claims no cores, a slot that has some
// left.
func enough(share gpu.Share, k *kind, s int, free, all part) bool {
	need := wanted(share, k, s, all)
	switch {
	case alone(share, k) && free != all:
		return false
	case free.mem < need.mem || free.cores < need.cores:
		return false
	default:
		return need.cores > 0 || free.cores > 0 || all.cores == 0
	}
}

// milliOf is what a part counts for, in thousandths of its device.
func milliOf(p part, memory int64) int {
	n := int64(p.cores) * wholeDevice / gpu.AllCores
	if memory > 0 {
		n = max(n, int64(p.mem)*wholeDevice/memory)
	}
	return int(min(max(n, 1), wholeDevice))
}

// looseness is how much of a slot is free, whatever its size: the thousandths
// of its memory and those of its cores.
func (c *Cluster) looseness(r *room, s int) int32 {
	free, all := c.parts[int(r.part)+s], c.alls[int(r.part)+s]
	if r.kind.divisible {
		return free.mem
	}
	return ratio(free.mem, all.mem) + ratio(free.cores, all.cores)
}

// ratio is in thousandths, rounded down: less than all is less than 1000.
func ratio(free, all int32) int32 {
	if all == 0 {
		return 0
	}
	return int32(int64(free) * wholeDevice / int64(all))
}

// idleOf is how much of a slot is free, in thousandths, to tasks that ask for
// memory alone, and to those that ask for cores too: memory or cores, whichever
// is more. To those, what is left of the one alone is lost.
func (c *Cluster) idleOf(r *room, s int, free part) (mem, both int32) {
	if !c.isShared(r, s) {
		return free.mem, free.mem // in thousandths already
	}
	all := c.alls[int(r.part)+s]
	mem = ratio(free.mem, all.mem)
	return mem, max(mem, ratio(free.cores, all.cores))
}

// unused reports whether nobody has any of the slot.
func (c *Cluster) unused(r *room, s int) bool {
	return c.parts[int(r.part)+s] == c.alls[int(r.part)+s]
}
