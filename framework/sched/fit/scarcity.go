package fit

// survey finds out what is scarce in the cluster as it is made. GPUs that go
// whole and those that tasks share are weighed apart: no task has the choice.
func (f *fragments) survey(c *Cluster) {
	whole, parts := make([]float64, len(c.world.kinds)), make([]float64, len(c.world.kinds))
	mem, n := int64(0), 0
	for i := range c.rooms {
		r := &c.rooms[i]
		for s, all := range c.allsOf(r) {
			if c.isShared(r, s) {
				parts[r.kind.id]++
				mem, n = mem+memoryOf(r.kind, s, all), n+1
			}
		}
		whole[r.kind.id] += float64(c.gpus(i))
	}
	f.parts = n > 0
	f.bind(c.world, whole, false, 0)
	if f.parts {
		f.bind(c.world, parts, true, mem/int64(n))
	}
	f.large = c.largest(sum(whole))
}

func sum(list []float64) float64 {
	all := 0.0
	for _, n := range list {
		all += n
	}
	return all
}

// gpus counts those an agent has that go whole, in use or not.
func (c *Cluster) gpus(i int) int {
	r := &c.rooms[i]
	slots := len(r.kind.slots)
	for s := range r.kind.slots {
		if c.isShared(r, s) {
			slots--
		}
	}
	return max(slots, min(c.world.agents[i].TotalGPUs, maxGPUs), int(r.gpus))
}

// bind finds out for each typical task that only some of the cluster's GPUs
// will do for how much it presses on those: its share of what typical tasks
// ask for over the share of all GPUs that will do. It is for those that want
// parts, or for the others; mem is that of a shared device on average, in MiB.
func (f *fragments) bind(w *world, supply []float64, parts bool, mem int64) {
	asked, all := 0.0, sum(supply)
	for i := range f.typical {
		if t := &f.typical[i]; f.wants(t) == parts {
			asked += t.asks(mem)
		}
	}
	for i := range f.typical {
		t := &f.typical[i]
		if f.wants(t) != parts {
			continue
		}
		may := 0.0
		for id, n := range supply {
			may += n * t.serves(w, w.kinds[id])
		}
		if may > 0 && may < all {
			t.press = t.asks(mem) / asked * all / may
		}
	}
}

// wants reports whether the task gets parts of devices that tasks share. If
// none is shared, parts come of divisible ones, which go whole as well.
func (f *fragments) wants(t *typical) bool { return t.shared && f.parts }

// asks is what such tasks take of the GPUs, by how often they come: parts by
// what they are of a device with so much memory, if that is known.
func (t *typical) asks(mem int64) float64 {
	milli := t.milli
	if t.shared && mem > 0 {
		milli = milliOf(partOf(t.share.MemOf(mem), t.share.Cores), mem)
	}
	return t.weight * float64(t.gpus*milli)
}

// serves is the part of a kind's GPUs that will do for the task.
func (t *typical) serves(w *world, k *kind) float64 {
	m := t.wish.on(k, w)
	switch {
	case t.gpus == 0:
		return 0
	case len(k.slots) > 0:
		return float64(count(m.mask)) / float64(len(k.slots))
	case m.counted:
		return 1
	}
	return 0
}

// scarcity of a kind's GPUs, whole or in parts, from 0, which is that nobody
// insists on them, to 1, which is that those who do would take them all if the
// cluster were full.
func (f *fragments) scarcity(w *world, k *kind, parts bool) float64 {
	at := 0
	if parts {
		at = 1
	}
	if k.weighed {
		return k.scarce[at]
	}
	k.weighed, k.scarce = true, [2]float64{}
	for i := range f.typical {
		switch t := &f.typical[i]; {
		case t.press == 0:
		case f.wants(t):
			k.scarce[1] += t.press * t.serves(w, k)
		default:
			k.scarce[0] += t.press * t.serves(w, k)
		}
	}
	k.scarce[0], k.scarce[1] = min(k.scarce[0], 1), min(k.scarce[1], 1)
	return k.scarce[at]
}

// size is that of agents whose idle room few others have; gpus is 0 where no
// size is rare.
type size struct {
	gpus int32
	cpus int64
}

// largest is the size of the agents with the most GPUs, all free, and the most
// CPUs, give or take a tenth: what idles is seldom idle to the last. If they
// have half of all GPUs, nothing about them is rare.
func (c *Cluster) largest(all float64) size {
	s := size{gpus: 1}
	for i := range c.rooms {
		s.gpus = max(s.gpus, int32(c.gpus(i)))
	}
	for i := range c.rooms {
		if r := &c.rooms[i]; r.freeGPUs() >= s.gpus {
			s.cpus = max(s.cpus, r.free.cpus-r.free.cpus/10)
		}
	}
	have := 0.0
	for i := range c.rooms {
		if s.is(&c.rooms[i]) {
			have += float64(s.gpus)
		}
	}
	if have >= all/2 {
		return size{}
	}
	return s
}

// is reports whether the agent is idle and of that size.
func (s *size) is(r *room) bool {
	return s.gpus > 0 && r.freeGPUs() >= s.gpus && r.free.cpus >= s.cpus
}
