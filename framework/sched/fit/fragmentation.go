package fit

import (
	"cmp"
	"math"
	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
	"slices"
)

// TypicalTask is a task that the cluster runs often. Only its amounts and its GPU
// request matter, not its constraints and role.
type TypicalTask struct {
	Demand Demand
	// Weight is how often it arrives, in any unit.
	Weight float64
}

// fragmentationModel measures fragmentation as FGD does ("Beware of Fragmentation",
// USENIX ATC 2023): the idle GPU thousandths of an agent that a typical task
// cannot use, weighted by how often such a task arrives. A task without GPUs
// can use none.
type fragmentationModel struct {
	enabled          bool
	limitsByCPUs     bool // see score_headroom.go
	hasSharedDevices bool // set by surveyScarcity
	largestAgents    agentSize
	totalWeight      float64
	tasks            []typicalDemand
	cpuSteps         []int64 // what typical tasks need: distinct, sorted
	memSteps         []int64
	diskSteps        []int64
	levelOf          [wholeDevice + 1]uint16 // thousandths → number of distinct typical shares up to it
	levelCount       int
	maxTaskGPUs      int // of one typical task
	profiles         index.Memo[uint64, *usageProfile]
	allOrNone        index.Numbered[bool]           // computeAllOrNone by hardware class
	scarcity         index.Numbered[scarcityByMode] // computeScarcity by hardware class
}

type typicalDemand struct {
	weight      float64
	need        milliAmount
	gpus        int
	milli       int  // thousandths of each device, whole or divisible
	wantsShares bool // not whole devices
	share       gpu.ShareRequest
	requirement *deviceRequirement
	pressure    float64 // see computePressure
}

// usageProfile is how the typical tasks that fit by CPUs and memory use an
// agent's GPUs. Agents of one hardware class with similar free amounts share it.
type usageProfile struct {
	singleGPU []float64 // weight of one-GPU tasks that fit into a slot, by level
	multiGPU  []float64 // weight of tasks with several GPUs, by free GPUs up to maxTaskGPUs
	cpuBound  []cpuBoundTasks
}

// cpuBoundTasks are typical tasks that use the same GPUs.
type cpuBoundTasks struct {
	gpus  int
	level uint16 // of the slots that a one-GPU task uses
	tasks []cpuRatio
}

// cpuRatio is how many GPU thousandths a task uses for each CPU thousandth. Tasks
// with the smallest ratio run out of CPUs first.
type cpuRatio struct{ weight, gpuPerCPU float64 }

// agentSize is a size that few agents have when idle; gpus is 0 if no size is
// rare.
type agentSize struct {
	gpus int32
	cpus int64
}

// scarcityByMode is the scarcity of a hardware class's GPUs: of those that tasks
// take whole, and of those that tasks share.
type scarcityByMode struct{ whole, shares float64 }

func newFragmentationModel(x *clusterIndex, list []TypicalTask, limitsByCPUs bool) *fragmentationModel {
	f := &fragmentationModel{limitsByCPUs: limitsByCPUs}
	var millis []int
	for _, t := range list {
		d := &t.Demand
		if !(t.Weight > 0) || math.IsInf(t.Weight, 0) {
			continue
		}
		one := typicalDemand{weight: t.Weight, need: d.Amount.toMilli(), gpus: max(d.Request.GPUs, 0), requirement: x.findRequirement(d.Request)}
		if one.gpus > 0 {
			one.milli = wholeDevice
		}
		if one.gpus > 0 && !d.Request.Share.IsWhole() {
			one.wantsShares, one.share, one.milli = true, d.Request.Share, int(milliOfShare(d.Request.Share))
		}
		f.tasks = append(f.tasks, one)
		f.totalWeight += one.weight
		f.maxTaskGPUs = max(f.maxTaskGPUs, one.gpus)
		f.cpuSteps, f.memSteps, f.diskSteps = append(f.cpuSteps, one.need.cpus), append(f.memSteps, one.need.mem), append(f.diskSteps, one.need.disk)
		millis = append(millis, one.milli)
	}
	f.enabled = len(f.tasks) > 0
	f.cpuSteps, f.memSteps, f.diskSteps = sortUnique(f.cpuSteps), sortUnique(f.memSteps), sortUnique(f.diskSteps)
	millis = sortUnique(append(millis, 0))
	f.levelCount = len(millis)
	for s := range f.levelOf {
		f.levelOf[s] = uint16(countUpTo(millis, s))
	}
	return f
}

// findProfile returns how the typical tasks use the GPUs of an agent with the given free amounts. Agents of a
// hardware class with similar free amounts share it. Thousands of classes and of typical tasks do not overflow its
// key.
func (f *fragmentationModel) findProfile(r *agentCapacity, free *milliAmount) *usageProfile {
	key := uint64(r.hardware.id)<<1 | 1
	if r.hasDeviceIDs {
		key--
	}
	key = key*uint64(len(f.cpuSteps)+1) + uint64(countUpTo(f.cpuSteps, free.cpus))
	key = key*uint64(len(f.memSteps)+1) + uint64(countUpTo(f.memSteps, free.mem))
	key = key*uint64(len(f.diskSteps)+1) + uint64(countUpTo(f.diskSteps, free.disk))
	return f.profiles.Get(key, func() *usageProfile { return f.newProfile(r, free) })
}

// newProfile returns how the typical tasks use the GPUs of an agent with the given free amounts; see findProfile.
func (f *fragmentationModel) newProfile(r *agentCapacity, free *milliAmount) *usageProfile {
	p := &usageProfile{singleGPU: make([]float64, f.levelCount+1), multiGPU: make([]float64, f.maxTaskGPUs+1)}
	for i := range f.tasks {
		t := &f.tasks[i]
		switch {
		case t.gpus == 0 || t.wantsShares && !r.hardware.divisible || !free.canHold(&t.need) || !t.canUseAllOn(r):
		case t.gpus == 1:
			for l := f.levelOf[t.milli]; int(l) <= f.levelCount; l++ {
				p.singleGPU[l] += t.weight
			}
			p.addCPUBound(t, f.levelOf[t.milli])
		default:
			for n := t.gpus; n < len(p.multiGPU); n++ {
				p.multiGPU[n] += t.weight
			}
			p.addCPUBound(t, f.levelOf[t.milli])
		}
	}
	return p
}

// addCPUBound adds a typical task to the profile if it needs CPUs.
func (p *usageProfile) addCPUBound(t *typicalDemand, level uint16) {
	if t.need.cpus <= 0 {
		return
	}
	one := cpuRatio{t.weight, float64(t.gpus*t.milli) / float64(t.need.cpus)}
	at := slices.IndexFunc(p.cpuBound, func(h cpuBoundTasks) bool { return h.gpus == t.gpus && h.level == level })
	if at < 0 {
		at = len(p.cpuBound)
		p.cpuBound = append(p.cpuBound, cpuBoundTasks{gpus: t.gpus, level: level})
	}
	tasks := &p.cpuBound[at].tasks
	in, same := slices.BinarySearchFunc(*tasks, one, func(a, b cpuRatio) int { return cmp.Compare(a.gpuPerCPU, b.gpuPerCPU) })
	if same {
		(*tasks)[in].weight += one.weight
		return
	}
	*tasks = slices.Insert(*tasks, in, one)
}

// starvedMilli returns how much of the usable GPUs lacks CPUs, weighted. levels
// has the free thousandths of slots by level; the last level is whole GPUs.
func (p *usageProfile) starvedMilli(cpus int64, full int, levels []float64) float64 {
	for l := len(levels) - 2; l >= 0; l-- {
		levels[l] += levels[l+1] // a task uses slots of its level and above
	}
	sum := 0.0
	for i := range p.cpuBound {
		h := &p.cpuBound[i]
		usable := levels[h.level]
		if h.gpus > 1 {
			usable = float64(full) * wholeDevice
			if full < h.gpus {
				continue
			}
		}
		for _, t := range h.tasks {
			short := usable - float64(cpus)*t.gpuPerCPU
			if short <= 0 {
				break
			}
			sum += t.weight * short
		}
	}
	return sum
}

// canUseAllOn reports whether the task can use the GPUs of an agent, which are
// equal.
func (t *typicalDemand) canUseAllOn(r *agentCapacity) bool {
	m := t.requirement.matchOn(r.hardware)
	if r.hasDeviceIDs {
		return m.allSlots
	}
	return m.allCounted
}

// usesAllOrNone reports whether each typical task can use all GPUs of the
// hardware or none of them.
func (f *fragmentationModel) usesAllOrNone(k *hardwareClass) bool {
	return *f.allOrNone.Get(k.id, func() bool { return f.computeAllOrNone(k) })
}

// computeAllOrNone reports whether each typical task can use all GPUs of the
// hardware or none of them; see usesAllOrNone.
func (f *fragmentationModel) computeAllOrNone(k *hardwareClass) bool {
	for i := range f.tasks {
		t := &f.tasks[i]
		if t.gpus == 0 {
			continue
		}
		if m := t.requirement.matchOn(k); !m.allSlots && countBits(m.slotMask) > 0 || k.divisible && t.wantsShares && t.gpus > 1 {
			return false
		}
	}
	return true
}

func sortUnique[T int | int64](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

// countUpTo counts the sorted values that are at most x.
func countUpTo[T int | int64](sorted []T, x T) int {
	n, _ := slices.BinarySearch(sorted, x+1)
	return n
}
