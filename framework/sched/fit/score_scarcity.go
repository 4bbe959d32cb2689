package fit

// surveyScarcity finds out what is scarce in the cluster as it is made. GPUs that go
// whole and those that tasks share are weighed apart: no task has the choice.
func (f *fragmentationModel) surveyScarcity(c *Cluster) {
	hardware := c.index.hardwareClasses.Values()
	whole, parts := make([]float64, len(hardware)), make([]float64, len(hardware))
	mem, n := int64(0), 0
	for i := range c.capacities {
		r := &c.capacities[i]
		for s, all := range c.totalSharesOf(r) {
			if c.isShared(r, s) {
				parts[r.hardware.id]++
				mem, n = mem+deviceMemory(r.hardware, s, all), n+1
			}
		}
		whole[r.hardware.id] += float64(c.totalWholeGPUs(i))
	}
	f.hasSharedDevices = n > 0
	f.computePressure(hardware, whole, false, 0)
	if f.hasSharedDevices {
		f.computePressure(hardware, parts, true, mem/int64(n))
	}
	f.largestAgents = c.largestAgentSize(sumFloats(whole))
}

func sumFloats(list []float64) float64 {
	all := 0.0
	for _, n := range list {
		all += n
	}
	return all
}

// totalWholeGPUs counts those an agent has that go whole, in use or not.
func (c *Cluster) totalWholeGPUs(i int) int {
	r := &c.capacities[i]
	slots := len(r.hardware.slots)
	for s := range r.hardware.slots {
		if c.isShared(r, s) {
			slots--
		}
	}
	return max(slots, min(c.index.agents[i].TotalGPUs, maxGPUs), int(r.scalarGPUs))
}

// computePressure finds out for each typical task that only some of the cluster's GPUs
// will do for how much it presses on those: its share of what typical tasks
// ask for over the share of all GPUs that will do. It is for those that want
// parts, or for the others; mem is that of a shared device on average, in MiB.
func (f *fragmentationModel) computePressure(hardware []*hardwareClass, supply []float64, parts bool, mem int64) {
	asked, all := 0.0, sumFloats(supply)
	for i := range f.tasks {
		if t := &f.tasks[i]; f.wantsSharedDevices(t) == parts {
			asked += t.gpuMilliAsked(mem)
		}
	}
	for i := range f.tasks {
		t := &f.tasks[i]
		if f.wantsSharedDevices(t) != parts {
			continue
		}
		may := 0.0
		for id, n := range supply {
			may += n * t.servedFraction(hardware[id])
		}
		if may > 0 && may < all {
			t.pressure = t.gpuMilliAsked(mem) / asked * all / may
		}
	}
}

// wantsSharedDevices reports whether the task gets parts of devices that tasks share. If
// none is shared, parts come of divisible ones, which go whole as well.
func (f *fragmentationModel) wantsSharedDevices(t *typicalDemand) bool {
	return t.wantsShares && f.hasSharedDevices
}

// gpuMilliAsked is what such tasks take of the GPUs, by how often they come: parts by
// what they are of a device with so much memory, if that is known.
func (t *typicalDemand) gpuMilliAsked(mem int64) float64 {
	milli := t.milli
	if t.wantsShares && mem > 0 {
		milli = milliOfAmount(newShareAmount(t.share.MemOf(mem), t.share.Cores), mem)
	}
	return t.weight * float64(t.gpus*milli)
}

// servedFraction is the part of a kind's GPUs that will do for the task.
func (t *typicalDemand) servedFraction(k *hardwareClass) float64 {
	m := t.requirement.matchOn(k)
	switch {
	case t.gpus == 0:
		return 0
	case len(k.slots) > 0:
		return float64(countBits(m.slotMask)) / float64(len(k.slots))
	case m.allCounted:
		return 1
	}
	return 0
}

// scarcityByMode is the scarcity of a hardware class's GPUs: of those that tasks
// take whole and of those that they share.
type scarcityByMode struct{ whole, shares float64 }

// computeScarcity adds up the pressure of the typical tasks that some of the
// hardware serves; see scarcityOf.
func (f *fragmentationModel) computeScarcity(k *hardwareClass) scarcityByMode {
	var s scarcityByMode
	for i := range f.tasks {
		switch t := &f.tasks[i]; {
		case t.pressure == 0:
		case f.wantsSharedDevices(t):
			s.shares += t.pressure * t.servedFraction(k)
		default:
			s.whole += t.pressure * t.servedFraction(k)
		}
	}
	return scarcityByMode{min(s.whole, 1), min(s.shares, 1)}
}

// agentSize is that of agents whose idle room few others have; gpus is 0 where no
// size is rare.
type agentSize struct {
	gpus int32
	cpus int64
}

// largestAgentSize is the size of the agents with the most GPUs, all free, and the most
// CPUs, give or take a tenth: what idles is seldom idle to the last. If they
// have half of all GPUs, nothing about them is rare.
func (c *Cluster) largestAgentSize(all float64) agentSize {
	s := agentSize{gpus: 1}
	for i := range c.capacities {
		s.gpus = max(s.gpus, int32(c.totalWholeGPUs(i)))
	}
	for i := range c.capacities {
		if r := &c.capacities[i]; r.freeGPUs() >= s.gpus {
			s.cpus = max(s.cpus, r.free.cpus-r.free.cpus/10)
		}
	}
	have := 0.0
	for i := range c.capacities {
		if s.isIdleMatch(&c.capacities[i]) {
			have += float64(s.gpus)
		}
	}
	if have >= all/2 {
		return agentSize{}
	}
	return s
}

// isIdleMatch reports whether the agent is idle and of that size.
func (s *agentSize) isIdleMatch(r *agentCapacity) bool {
	return s.gpus > 0 && r.freeGPUs() >= s.gpus && r.free.cpus >= s.cpus
}
