package fit

import (
	"math"
	"math/bits"
	"slices"

	"mesos-gpu/gpu"
)

// fragments measures fragmentation as FGD does ("Beware of Fragmentation",
// USENIX ATC 2023): the idle GPU thousandths of an agent that a typical task
// cannot use, weighted by how often such a task comes. One without GPUs can
// use none.
type fragments struct {
	on      bool
	feeds   bool // see headroom.go
	parts   bool // some devices are shared: see survey
	large   size
	weight  float64
	typical []typical
	cpus    []int64 // what typical tasks need, sorted, each once
	mems    []int64
	disks   []int64
	levels  [wholeDevice + 1]uint16 // thousandths → how many millis are no more
	millis  int
	gpus    int // the most that a typical task takes
	of      map[uint64]*profile
}

type typical struct {
	weight float64
	need   amount
	gpus   int
	milli  int  // thousandths of a device that goes whole or is divisible
	shared bool // it wants parts
	share  gpu.Share
	wish   *wish
	press  float64 // see bind
}

// profile is what the typical tasks that an agent has the CPUs and memory for
// make of its GPUs. Agents of a kind with like amounts share it.
type profile struct {
	one    []float64 // weight of tasks of one GPU that take a slot of that level
	many   []float64 // weight of tasks of several GPUs by how many are free, up to the most that one takes
	hungry []hungry
}

func newFragments(w *world, list []Typical, feeds bool) *fragments {
	f := &fragments{feeds: feeds, of: map[uint64]*profile{}}
	var millis []int
	for _, t := range list {
		d := &t.Demand
		if !(t.Weight > 0) || math.IsInf(t.Weight, 0) {
			continue
		}
		one := typical{weight: t.Weight, need: d.Amount.milli(), gpus: max(d.Request.GPUs, 0), wish: w.wish(d.Request)}
		if one.gpus > 0 {
			one.milli = wholeDevice
		}
		if one.gpus > 0 && !d.Request.Share.Whole() {
			one.shared, one.share, one.milli = true, d.Request.Share, int(thousandthsOf(d.Request.Share))
		}
		f.typical = append(f.typical, one)
		f.weight += one.weight
		f.gpus = max(f.gpus, one.gpus)
		f.cpus, f.mems, f.disks = append(f.cpus, one.need.cpus), append(f.mems, one.need.mem), append(f.disks, one.need.disk)
		millis = append(millis, one.milli)
	}
	f.on = len(f.typical) > 0
	f.cpus, f.mems, f.disks = distinct(f.cpus), distinct(f.mems), distinct(f.disks)
	millis = distinct(append(millis, 0))
	f.millis = len(millis)
	for s := range f.levels {
		f.levels[s] = uint16(upTo(millis, s))
	}
	return f
}

func distinct[T int | int64](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

// upTo counts the sorted values that are no more than x.
func upTo[T int | int64](sorted []T, x T) int {
	n, _ := slices.BinarySearch(sorted, x+1)
	return n
}

// profile finds or makes the one for an agent with so much free. Thousands of
// kinds and of typical tasks number it without overflow.
func (f *fragments) profile(w *world, r *room, free *amount) *profile {
	key := uint64(r.kind.id)<<1 | 1
	if r.named {
		key--
	}
	key = key*uint64(len(f.cpus)+1) + uint64(upTo(f.cpus, free.cpus))
	key = key*uint64(len(f.mems)+1) + uint64(upTo(f.mems, free.mem))
	key = key*uint64(len(f.disks)+1) + uint64(upTo(f.disks, free.disk))
	if p := f.of[key]; p != nil {
		return p
	}
	p := &profile{one: make([]float64, f.millis+1), many: make([]float64, f.gpus+1)}
	for i := range f.typical {
		t := &f.typical[i]
		switch {
		case t.gpus == 0 || t.shared && !r.kind.divisible || !free.holds(&t.need) || !t.on(w, r):
		case t.gpus == 1:
			for l := f.levels[t.milli]; int(l) <= f.millis; l++ {
				p.one[l] += t.weight
			}
			p.feed(t, f.levels[t.milli])
		default:
			for n := t.gpus; n < len(p.many); n++ {
				p.many[n] += t.weight
			}
			p.feed(t, f.levels[t.milli])
		}
	}
	f.of[key] = p
	return p
}

// on reports whether the GPUs of an agent, which are all alike, will do.
func (t *typical) on(w *world, r *room) bool {
	m := t.wish.on(r.kind, w)
	if r.named {
		return m.all
	}
	return m.counted
}

// alike reports whether each typical task can use all GPUs of the kind, or
// none.
func (f *fragments) alike(w *world, k *kind) bool {
	if k.asked {
		return k.alike
	}
	k.asked, k.alike = true, true
	for i := range f.typical {
		if f.typical[i].gpus == 0 {
			continue
		}
		if m := f.typical[i].wish.on(k, w); !m.all && count(m.mask) > 0 || k.divisible && f.typical[i].shared && f.typical[i].gpus > 1 {
			k.alike = false
		}
	}
	return k.alike
}

// state is an agent as it would be: with so much free, so many whole GPUs,
// and one slot shared to another degree. slot is -1 if none is.
type state struct {
	free  amount
	full  int
	slot  int
	share int32
}

// fragmented is the agent's fragmentation as it is, times the weight.
func (c *Cluster) fragmented(r *room) float64 {
	if c.mixed(r) {
		return c.fragmentedMixed(r, &r.free, c.sketchOf(r))
	}
	return c.fragmentedAs(r, &state{free: r.free, full: int(r.freeGPUs()), slot: -1})
}

// mixed reports whether the agent's devices must be looked at one by one.
func (c *Cluster) mixed(r *room) bool {
	return r.named && (!c.world.frag.alike(c.world, r.kind) || r.part >= 0 && !r.kind.divisible)
}

// fragmentedAs is for agents whose GPUs are alike, or go by count.
func (c *Cluster) fragmentedAs(r *room, s *state) float64 {
	f := c.world.frag
	p := f.profile(c.world, r, &s.free)
	idle := float64(s.full) * wholeDevice
	usable := idle * (p.one[f.levels[wholeDevice]] + p.many[min(s.full, f.gpus)])
	levels := c.levels[:0]
	if f.feeds {
		levels = append(levels, make([]float64, f.millis+1)...)
		levels[f.levels[wholeDevice]] = idle
		c.levels = levels
	}
	part := func(share int32) {
		l := f.levels[share]
		idle += float64(share)
		usable += float64(share) * p.one[l]
		if f.feeds {
			levels[l] += float64(share)
		}
	}
	if r.partial > 0 {
		for slot, p := range c.partsOf(r) {
			if p.mem > 0 && p.mem < wholeDevice && slot != s.slot {
				part(p.mem)
			}
		}
	}
	if s.slot >= 0 {
		part(s.share)
	}
	if f.feeds && idle > 0 {
		usable -= hungerWeighs * p.starved(s.free.cpus, s.full, levels)
	}
	return idle*f.weight - usable
}

// sketchOf copies what is free of each slot, to draw in what would be taken.
// Of slots that go whole it has thousandths. It is good until the next call.
func (c *Cluster) sketchOf(r *room) []part {
	sketch := append(c.sketch[:0], c.partsOf(r)...)
	if r.part < 0 {
		sketch = append(sketch, make([]part, len(r.kind.slots))...)
	}
	c.sketch = sketch
	for w, m := range c.wholeOf(r) {
		for ; m != 0; m &= m - 1 {
			sketch[w*64+bits.TrailingZeros64(m)] = part{mem: wholeDevice}
		}
	}
	return sketch
}

// fragmentedMixed looks at each device for each typical task.
func (c *Cluster) fragmentedMixed(r *room, free *amount, sketch []part) float64 {
	f := c.world.frag
	idleMem, idleBoth := 0.0, 0.0
	for s, p := range sketch {
		mem, both := c.idleOf(r, s, p)
		idleMem, idleBoth = idleMem+float64(mem), idleBoth+float64(both)
	}
	sum := 0.0
	for i := range f.typical {
		t := &f.typical[i]
		idle, cores := idleMem, t.share.Cores > 0
		if cores {
			idle = idleBoth
		}
		if t.gpus == 0 || !free.holds(&t.need) {
			sum += idle * t.weight
			continue
		}
		usable, slots, holds := 0.0, 0, 0.0
		m := t.wish.on(r.kind, c.world)
		for s, p := range sketch {
			if m.mask[s/64]>>(s%64)&1 != 0 && c.usable(r, t, s, p) {
				mem, both := c.idleOf(r, s, p)
				if usable += float64(mem); cores {
					usable += float64(both - mem)
				}
				holds += c.holdsOf(r, t, s, p)
				slots++
			}
		}
		if slots < t.gpus {
			usable = 0
		}
		if f.feeds && usable > 0 && t.need.cpus > 0 {
			fed := float64(free.cpus) / float64(t.need.cpus) * float64(t.gpus)
			usable -= hungerWeighs * usable * max(0, 1-fed/holds)
		}
		sum += (idle - usable) * t.weight
	}
	return sum
}

// usable reports whether the typical task could have its part, or all, of a
// slot of which so much were free.
func (c *Cluster) usable(r *room, t *typical, s int, free part) bool {
	if !c.isShared(r, s) {
		return int(free.mem) >= t.milli && (!t.shared || r.kind.divisible)
	}
	all := c.alls[int(r.part)+s]
	return t.shared && free.mem > 0 && r.kind.gives(int32(t.gpus)) && enough(t.share, r.kind, s, free, all)
}

// holdsOf is how many devices of the typical task a slot of which so much were
// free would make.
func (c *Cluster) holdsOf(r *room, t *typical, s int, free part) float64 {
	if !c.isShared(r, s) {
		return float64(free.mem) / float64(t.milli)
	}
	need := needs(t.share, r.kind, s, c.alls[int(r.part)+s])
	n := float64(free.mem) / float64(need.mem)
	if need.cores > 0 {
		n = min(n, float64(free.cores)/float64(need.cores))
	}
	return n
}

// gain is FGD's score, 0 to 100, of a task that changes the fragmentation of
// an agent. The published one cuts off its decimals, which matters.
func (c *Cluster) gain(before, after float64) int64 {
	x := (before - after) / c.world.frag.weight / wholeDevice
	return int64(100 / (1 + math.Exp(-x)))
}

// leastFragmented ranks by FGD's score.
func leastFragmented(c *Cluster, i int, cl *class) int64 {
	if !c.world.frag.on {
		return c.plain[i] + c.preferred(i, cl)
	}
	r := &c.rooms[i]
	if cl.shared {
		return 1 + c.leastFragmentedParts(i, cl)
	}
	free := r.free.minus(cl.need)
	if !c.mixed(r) {
		return 1 + c.gain(r.before, c.fragmentedAs(r, &state{free: free, full: int(r.freeGPUs() - cl.gpus), slot: -1}))
	}
	sketch := c.sketchOf(r)
	if cl.gpus > 0 {
		for _, s := range c.choose(i, cl).slots {
			sketch[s] = part{}
		}
	}
	return 1 + c.gain(r.before, c.fragmentedMixed(r, &free, sketch))
}

// leastFragmentedParts is FGD's score where a task gets parts.
func (c *Cluster) leastFragmentedParts(i int, cl *class) int64 {
	if cl.gpus == 1 {
		_, score := c.fragmentShare(i, cl)
		return score
	}
	r := &c.rooms[i]
	free, sketch := r.free.minus(cl.need), c.sketchOf(r)
	for _, s := range c.several(i, cl) {
		sketch[s] = sketch[s].minus(c.partNeeded(r, cl, s))
	}
	return c.gain(r.before, c.fragmentedMixed(r, &free, sketch))
}

// leastFragmentedShare is the slot whose sharing scores most.
func leastFragmentedShare(c *Cluster, i int, cl *class) int {
	if !c.world.frag.on {
		return tightest(c, i, cl)
	}
	slot, _ := c.fragmentShare(i, cl)
	return slot
}

// fragmentShare tries each slot for a part of a device. Among equals the first
// of a divisible agent wins, as is published, else the tightest: others stay
// whole for who wants much.
func (c *Cluster) fragmentShare(i int, cl *class) (best int, most int64) {
	r := &c.rooms[i]
	best, most = -1, -1
	least := int32(math.MaxInt32)
	free, full := r.free.minus(cl.need), int(r.freeGPUs())
	mixed := c.mixed(r)
	c.partSlots(r, cl, func(slot int) bool {
		var after float64
		if left := c.partsOf(r)[slot].minus(c.partNeeded(r, cl, slot)); mixed {
			sketch := c.sketchOf(r)
			sketch[slot] = left
			after = c.fragmentedMixed(r, &free, sketch)
		} else {
			s := state{free: free, full: full, slot: slot, share: left.mem}
			if left.mem+cl.milli == wholeDevice {
				s.full--
			}
			after = c.fragmentedAs(r, &s)
		}
		loose := int32(0)
		if !r.kind.divisible {
			loose = c.looseness(r, slot)
		}
		if score := c.gain(r.before, after); score > most || score == most && loose < least {
			best, most, least = slot, score, loose
		}
		return true
	})
	return best, most
}
