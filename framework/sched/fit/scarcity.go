package fit

import (
	"iter"
	"math"
	"slices"

	"mesos-gpu/framework/sched/fit/hardware"
)

// prepareFragmentation creates the fragmentation model for the typical tasks.
func (c *Cluster) prepareFragmentation(list []TypicalTask) {
	if !c.policy.usesTypicalTasks {
		list = nil
	}
	c.fragmentation = newFragmentationModel(&c.index.hardware, list)
	if c.policy.surveysScarcity && c.fragmentation.enabled {
		c.fragmentation.surveyScarcity(c)
	}
}

// surveyScarcity computes how scarce GPUs are in the cluster when it is created. Shared GPUs are separate from the others:
// tasks with shares use only these, and tasks for whole GPUs use these last.
func (f *fragmentationModel) surveyScarcity(c *Cluster) {
	classes := c.index.hardware.Classes()
	whole, parts := make([]float64, len(classes)), make([]float64, len(classes))
	mem, n := int64(0), 0
	for i := range c.capacities {
		r := &c.capacities[i]
		for s, slot := range c.sharesOf(r) {
			if c.isShared(r, s) {
				parts[r.hardware.ID]++
				mem, n = mem+deviceMemory(r.hardware, s, slot.total), n+1
			}
		}
		whole[r.hardware.ID] += float64(c.totalWholeGPUs(i))
	}
	f.hasSharedDevices = n > 0
	f.computePressure(classes, whole, false, 0)
	if f.hasSharedDevices {
		f.sharedDeviceMiB = mem / int64(n)
		f.computePressure(classes, parts, true, f.sharedDeviceMiB)
	}
	f.largestAgents, f.largestPoints = c.largestAgentSize(sumFloats(whole))
	f.remainders = f.findRemainderWorth(c)
}

func sumFloats(list []float64) float64 {
	all := 0.0
	for _, n := range list {
		all += n
	}
	return all
}

// totalWholeGPUs returns how many GPUs of an agent are not shared, free or not.
func (c *Cluster) totalWholeGPUs(i int) int {
	r := &c.capacities[i]
	slots := len(r.hardware.Slots)
	for s := range r.hardware.Slots {
		if c.isShared(r, s) {
			slots--
		}
	}
	return max(slots, min(c.index.agents[i].TotalGPUs, maxGPUs), int(r.scalarGPUs))
}

// computePressure computes the pressure of each typical or rare task that only some of the
// cluster's GPUs serve: its part of the total demand divided by the part of GPUs
// that serve it. It handles either tasks that want shares of shared devices or
// the others. mem is the average memory of a shared device in MiB.
func (f *fragmentationModel) computePressure(hardware []*hardware.Class, supply []float64, parts bool, mem int64) {
	asked, all := 0.0, sumFloats(supply)
	for t := range f.allTasks() {
		if f.wantsSharedDevices(t) == parts {
			asked += t.gpuMilliAsked(mem)
		}
	}
	for t := range f.allTasks() {
		if f.wantsSharedDevices(t) != parts {
			continue
		}
		serving := 0.0
		for id, n := range supply {
			serving += n * t.servedFraction(hardware[id])
		}
		if serving > 0 && serving < all {
			t.pressure = t.gpuMilliAsked(mem) / asked * all / serving
		}
	}
}

// allTasks yields the typical and the rare tasks.
func (f *fragmentationModel) allTasks() iter.Seq[*typicalDemand] {
	return func(yield func(*typicalDemand) bool) {
		for _, list := range [][]typicalDemand{f.tasks, f.rare} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// wantsSharedDevices reports whether the task uses shared devices. If there are
// none, shares come from divisible devices, which tasks may take whole too.
func (f *fragmentationModel) wantsSharedDevices(t *typicalDemand) bool {
	return t.wantsShares && f.hasSharedDevices
}

// gpuMilliAsked returns the GPU thousandths that such tasks use, times their weight. mem is the argument of gpuMilliIf.
func (t *typicalDemand) gpuMilliAsked(mem int64) float64 {
	return t.weight * float64(t.gpuMilliIf(mem))
}

// gpuMilliIf returns the GPU thousandths that the task takes if its devices have so much memory in MiB, which converts
// shares; 0 if unknown.
func (t *taskNeeds) gpuMilliIf(mem int64) int64 {
	if t.wantsShares && mem > 0 {
		return int64(t.gpus) * int64(milliOfAmount(newShareAmount(t.share.MemOf(mem), t.share.Cores), mem))
	}
	return t.gpuMilli()
}

// servedFraction returns the part of the hardware's GPUs that serve the task.
func (t *typicalDemand) servedFraction(k *hardware.Class) float64 {
	m := t.requirement.MatchOn(k)
	switch {
	case t.gpus == 0:
		return 0
	case len(k.Slots) > 0:
		return float64(m.Slots.Len()) / float64(len(k.Slots))
	case m.AllCounted:
		return 1
	}
	return 0
}

// largestAgentSize returns the size of the agents with the most free GPUs and, of
// those, the most CPUs less a tenth, since small tasks run on most agents, and
// their cost when they are idle. If these agents have half of all GPUs, no size is rare.
func (c *Cluster) largestAgentSize(all float64) (s agentSize, points int64) {
	s.gpus = 1
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
		return agentSize{}, 0
	}
	return s, c.costOfLargest(s, have/all)
}

// costOfLargest returns the points of idle agents of the size, which have a part of all GPUs: scarcityWeight, times their
// typical demand divided by that part if this is more than 1. Their demand is the part of all GPUs requested by typical tasks that
// fit no other agent.
func (c *Cluster) costOfLargest(s agentSize, part float64) int64 {
	f := c.fragmentation
	otherCPUs := slices.Repeat([]int64{-1}, f.maxTaskGPUs+1) // the most of another agent, by its free GPUs
	for i := range c.capacities {
		if r := &c.capacities[i]; !s.isIdleMatch(r) {
			n := min(int(r.freeGPUs()), f.maxTaskGPUs)
			otherCPUs[n] = max(otherCPUs[n], r.free.cpus)
		}
	}
	for n := f.maxTaskGPUs; n > 0; n-- {
		otherCPUs[n-1] = max(otherCPUs[n-1], otherCPUs[n])
	}
	requested, ofLargest := 0.0, 0.0
	for i := range f.tasks {
		t := &f.tasks[i]
		milli := t.gpuMilliAsked(f.sharedDeviceMiB)
		requested += milli
		if t.gpus > 0 && t.gpus <= s.gpus && t.need.cpus > otherCPUs[t.gpus] {
			ofLargest += milli
		}
	}
	pressure := 1.0
	if part > 0 && requested > 0 {
		pressure = max(1, ofLargest/requested/part)
	}
	return int64(math.Round(min(scarcityWeight*pressure, maxLargestPoints)))
}

// isIdleMatch reports whether the agent is idle and at least as large as s.
func (s *agentSize) isIdleMatch(r *agentCapacity) bool {
	return s.gpus > 0 && r.freeGPUs() >= s.gpus && r.free.cpus >= s.cpus
}

// scarcityFor returns how scarce the agent's GPUs are, whole or in shares: from 0 (no typical task that still fits there
// requires them) to 1 (those that require them would take them all if the cluster were full).
func (p *usageProfile) scarcityFor(shares bool) float64 {
	if shares {
		return p.scarcity.shares
	}
	return p.scarcity.whole
}
