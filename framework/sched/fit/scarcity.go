package fit

// survey finds out what is scarce in the cluster as it is made.
func (f *fragments) survey(c *Cluster) {
	supply := make([]float64, len(c.world.kinds))
	all := 0.0
	for i := range c.rooms {
		n := float64(c.gpus(i))
		supply[c.rooms[i].kind.id] += n
		all += n
	}
	f.bind(c.world, supply, all)
	f.large = c.largest(all)
}

// gpus counts those an agent has, in use or not.
func (c *Cluster) gpus(i int) int {
	r := &c.rooms[i]
	return max(len(r.kind.slots), min(c.world.agents[i].TotalGPUs, maxGPUs), int(r.gpus))
}

// bind finds out for each typical task that only some of the cluster's GPUs
// will do for how much it presses on those: its share of what typical tasks
// ask for over the share of all GPUs that will do.
func (f *fragments) bind(w *world, supply []float64, all float64) {
	asked := 0.0
	for i := range f.typical {
		asked += f.typical[i].asks()
	}
	for i := range f.typical {
		t := &f.typical[i]
		may := 0.0
		for id, n := range supply {
			may += n * t.serves(w, w.kinds[id])
		}
		if may > 0 && may < all {
			t.press = t.asks() / asked * all / may
		}
	}
}

// asks is what such tasks take of the GPUs, by how often they come.
func (t *typical) asks() float64 { return t.weight * float64(t.gpus*t.milli) }

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

// scarcity of a kind's GPUs, from 0, which is that nobody insists on them, to
// 1, which is that those who do would take them all if the cluster were full.
func (f *fragments) scarcity(w *world, k *kind) float64 {
	if k.weighed {
		return k.scarce
	}
	k.weighed, k.scarce = true, 0
	for i := range f.typical {
		if t := &f.typical[i]; t.press > 0 {
			k.scarce += t.press * t.serves(w, k)
		}
	}
	k.scarce = min(k.scarce, 1)
	return k.scarce
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
