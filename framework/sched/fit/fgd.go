package fit

import (
	"math"
	"slices"
)

// fragments measures fragmentation as FGD does ("Beware of Fragmentation",
// USENIX ATC 2023): the idle GPU thousandths of an agent that a typical task
// cannot use, weighted by how often such a task comes. One without GPUs can
// use none.
type fragments struct {
	on      bool
	feeds   bool // see headroom.go
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
	milli  int
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
		if one.gpus == 1 && d.Milli > 0 {
			one.milli = min(d.Milli, wholeDevice)
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
		case t.gpus == 0 || !free.holds(&t.need) || !t.on(w, r):
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
		if m := f.typical[i].wish.on(k, w); !m.all && count(m.mask) > 0 {
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
	share int16
}

// fragmented is the agent's fragmentation as it is, times the weight.
func (c *Cluster) fragmented(r *room) float64 {
	return c.fragmentedAs(r, &state{free: r.free, full: int(r.freeGPUs()), slot: -1})
}

// fragmentedAs is for agents whose GPUs are alike, or go by count.
func (c *Cluster) fragmentedAs(r *room, s *state) float64 {
	f := c.world.frag
	if r.named && !f.alike(c.world, r.kind) {
		return c.fragmentedMixed(r, s, nil)
	}
	p := f.profile(c.world, r, &s.free)
	idle := float64(s.full) * wholeDevice
	usable := idle * (p.one[f.levels[wholeDevice]] + p.many[min(s.full, f.gpus)])
	levels := c.levels[:0]
	if f.feeds {
		levels = append(levels, make([]float64, f.millis+1)...)
		levels[f.levels[wholeDevice]] = idle
		c.levels = levels
	}
	part := func(share int16) {
		l := f.levels[share]
		idle += float64(share)
		usable += float64(share) * p.one[l]
		if f.feeds {
			levels[l] += float64(share)
		}
	}
	if r.partial > 0 {
		for slot, share := range c.sharesOf(r) {
			if share > 0 && share < wholeDevice && slot != s.slot {
				part(share)
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

// fragmentedMixed looks at each device for each typical task. taken are slots
// that are taken whole.
func (c *Cluster) fragmentedMixed(r *room, s *state, taken []int) float64 {
	f := c.world.frag
	shares := append(c.sketch[:0], c.sharesOf(r)...)
	c.sketch = shares
	if s.slot >= 0 {
		shares[s.slot] = s.share
	}
	for _, slot := range taken {
		shares[slot] = 0
	}
	idle := 0.0
	for _, share := range shares {
		idle += float64(share)
	}
	sum := 0.0
	for i := range f.typical {
		t := &f.typical[i]
		if t.gpus == 0 || !s.free.holds(&t.need) {
			sum += idle * t.weight
			continue
		}
		usable, slots := 0.0, 0
		m := t.wish.on(r.kind, c.world)
		for slot, share := range shares {
			if int(share) >= t.milli && m.mask[slot/64]>>(slot%64)&1 != 0 {
				usable += float64(share)
				slots++
			}
		}
		if slots < t.gpus {
			usable = 0
		}
		if f.feeds && t.need.cpus > 0 {
			fed := float64(s.free.cpus) / float64(t.need.cpus) * float64(t.gpus*t.milli)
			usable -= hungerWeighs * max(0, usable-fed)
		}
		sum += (idle - usable) * t.weight
	}
	return sum
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
		return c.plain[i]
	}
	r := &c.rooms[i]
	if cl.milli > 0 {
		_, score := c.fragmentShare(i, cl)
		return 1 + score
	}
	s := state{free: r.free.minus(cl.need), full: int(r.freeGPUs() - cl.gpus), slot: -1}
	if cl.gpus > 0 && r.named && !c.world.frag.alike(c.world, r.kind) {
		return 1 + c.gain(r.before, c.fragmentedMixed(r, &s, c.choose(i, cl).slots))
	}
	return 1 + c.gain(r.before, c.fragmentedAs(r, &s))
}

// leastFragmentedShare is the slot whose sharing scores most.
func leastFragmentedShare(c *Cluster, i int, cl *class) int {
	if !c.world.frag.on {
		return tightest(c, i, cl)
	}
	slot, _ := c.fragmentShare(i, cl)
	return slot
}

// fragmentShare tries each slot for a part of a device; the first of equals
// wins.
func (c *Cluster) fragmentShare(i int, cl *class) (best int, most int64) {
	r := &c.rooms[i]
	best, most = -1, -1
	free, full := r.free.minus(cl.need), int(r.freeGPUs())
	c.shareSlots(i, cl, func(slot int, share int16) {
		s := state{free: free, full: full, slot: slot, share: share - int16(cl.milli)}
		if share == wholeDevice {
			s.full--
		}
		if score := c.gain(r.before, c.fragmentedAs(r, &s)); score > most {
			best, most = slot, score
		}
	})
	return best, most
}
