package fit

import (
	"math"
	"slices"

	"mesos-gpu/framework/sched/fit/hardware"
	"mesos-gpu/framework/sched/fit/index"
)

// fragmentationModel measures fragmentation as FGD does ("Beware of Fragmentation",
// USENIX ATC 2023): the idle GPU thousandths of an agent that a typical task
// cannot use, weighted by how often such a task arrives. A task without GPUs
// can use none.
type fragmentationModel struct {
	// enabled is set if there is a typical task. Otherwise nothing is measured.
	enabled bool
	tasks   []typicalDemand
	// rare are kinds that count for scarcity alone.
	rare []typicalDemand
	// totalWeight is the sum of the weights of the tasks.
	totalWeight float64
	// maxTaskGPUs is the largest number of GPUs of one typical task.
	maxTaskGPUs int
	// cpuSteps, memSteps and diskSteps are the distinct amounts that typical tasks need, sorted. Agents with free
	// amounts between the same steps fit the same tasks.
	cpuSteps, memSteps, diskSteps []int64
	// levelOf has, for each number of thousandths, how many distinct typical shares are at most that large. The result
	// is the level of a slot: slots of one level fit the same tasks. levelCount is the level of a whole device.
	levelOf    [wholeDevice + 1]uint16
	levelCount int
	// profiles caches newProfile, see findProfile. allOrNone caches computeAllOrNone by hardware class.
	profiles  index.Memo[uint64, *usageProfile]
	allOrNone index.Numbered[bool]
	// hasSharedDevices, sharedDeviceMiB (their average memory) and largestAgents describe the cluster; see
	// surveyScarcity. largestPoints is the cost of an idle agent of that size.
	hasSharedDevices bool
	sharedDeviceMiB  int64
	largestAgents    agentSize
	largestPoints    int64
	// remainders is nil if remainders of GPUs have no worth of their own; see findRemainderWorth.
	remainders *remainderWorth
}

// typicalDemand is a typical task.
type typicalDemand struct {
	taskNeeds
	weight float64
	// pressure is how much of the GPUs that serve the task such tasks would take; see computePressure.
	pressure float64
}

// usageProfile is how the typical tasks that fit by CPUs and memory use an
// agent's GPUs. Agents of one hardware class with similar free amounts share it.
type usageProfile struct {
	// singleGPU is the weight of one-GPU tasks that fit into a slot, by the level of the slot.
	singleGPU []float64
	// multiGPU is the weight of tasks with several GPUs, by the number of free GPUs up to maxTaskGPUs.
	multiGPU []float64
	// mix has the combined needs of these tasks, and scarcity the scarcity of the agent's GPUs for them and for rare tasks: GPUs
	// that no typical task can use, since CPUs or memory are taken, are not scarce for it. See starvationPoints and
	// scarcityFor.
	mix      mixByMode
	scarcity scarcityByMode
}

// mixedNeeds is the sum of what typical tasks need, by their weight: cpus and gpuMilli in thousandths.
type mixedNeeds struct{ weight, cpus, gpuMilli float64 }

// mixByMode separates tasks that take whole GPUs from those that use shared devices.
type mixByMode struct{ whole, shares mixedNeeds }

// agentSize is a size that few agents have when idle; gpus is 0 if no size is
// rare.
type agentSize struct {
	gpus int32
	cpus int64
}

// scarcityByMode is the scarcity of a hardware class's GPUs: of those that tasks
// take whole, and of those that tasks share.
type scarcityByMode struct{ whole, shares float64 }

func newFragmentationModel(catalog *hardware.Catalog, list []TypicalTask) *fragmentationModel {
	f := &fragmentationModel{}
	millis := []int32{0}
	for i := range list {
		if weight := list[i].Weight; weight > 0 && !math.IsInf(weight, 0) {
			t := typicalDemand{taskNeeds: newTaskNeeds(&list[i].Demand, catalog), weight: weight}
			if list[i].Rare {
				f.rare = append(f.rare, t)
				continue
			}
			f.tasks = append(f.tasks, t)
			f.totalWeight += weight
			f.maxTaskGPUs = max(f.maxTaskGPUs, int(t.gpus))
			f.cpuSteps, f.memSteps, f.diskSteps = append(f.cpuSteps, t.need.cpus), append(f.memSteps, t.need.mem), append(f.diskSteps, t.need.disk)
			millis = append(millis, t.milliPerDevice)
		}
	}
	f.enabled = len(f.tasks) > 0
	f.cpuSteps, f.memSteps, f.diskSteps, millis = sortUnique(f.cpuSteps), sortUnique(f.memSteps), sortUnique(f.diskSteps), sortUnique(millis)
	f.levelCount = len(millis)
	level := 0
	for s := range f.levelOf {
		for level < len(millis) && int(millis[level]) <= s {
			level++
		}
		f.levelOf[s] = uint16(level)
	}
	return f
}

// findProfile returns how the typical tasks use the GPUs of an agent with the given free amounts. Agents of a
// hardware class with similar free amounts share it. Thousands of classes and of typical tasks do not overflow its
// key.
func (f *fragmentationModel) findProfile(r *agentCapacity, free *milliAmount) *usageProfile {
	key := uint64(r.hardware.ID)<<1 | 1
	if r.hasDeviceIDs {
		key--
	}
	key = key*uint64(len(f.cpuSteps)+1) + uint64(countUpTo(f.cpuSteps, free.cpus))
	key = key*uint64(len(f.memSteps)+1) + uint64(countUpTo(f.memSteps, free.mem))
	key = key*uint64(len(f.diskSteps)+1) + uint64(countUpTo(f.diskSteps, free.disk))
	return f.profiles.Get(key, func() *usageProfile { return f.newProfile(r, free) })
}

func (f *fragmentationModel) newProfile(r *agentCapacity, free *milliAmount) *usageProfile {
	p := &usageProfile{singleGPU: make([]float64, f.levelCount+1), multiGPU: make([]float64, f.maxTaskGPUs+1)}
	for i := range f.tasks {
		t := &f.tasks[i]
		if t.gpus == 0 || !free.canHold(&t.need) {
			continue
		}
		f.addToMix(p, t, r.hardware)
		if t.wantsShares && !r.hardware.Divisible || !t.canUseAllOn(r) {
			continue
		}
		level := f.levelOf[t.milliPerDevice]
		fitting := p.singleGPU[level:]
		if t.gpus > 1 {
			fitting = p.multiGPU[t.gpus:]
		}
		for n := range fitting {
			fitting[n] += t.weight
		}
	}
	for i := range f.rare {
		f.addToScarcity(p, &f.rare[i], r.hardware)
	}
	return p
}

// addToMix adds a typical task to the needs and the scarcity of a profile if some of the hardware's GPUs serve it.
func (f *fragmentationModel) addToMix(p *usageProfile, t *typicalDemand, k *hardware.Class) {
	if t.servedFraction(k) == 0 {
		return
	}
	f.addToScarcity(p, t, k)
	mix, memory := &p.mix.whole, int64(0)
	if f.wantsSharedDevices(t) {
		mix, memory = &p.mix.shares, f.sharedDeviceMiB
	}
	mix.addTask(t, memory)
}

// addTask adds the needs of a typical task. memory is the argument of gpuMilliIf.
func (m *mixedNeeds) addTask(t *typicalDemand, memory int64) {
	m.weight += t.weight
	m.cpus += t.weight * float64(t.need.cpus)
	m.gpuMilli += t.weight * float64(t.gpuMilliIf(memory))
}

// addToScarcity adds the pressure of a task to the scarcity of a profile.
func (f *fragmentationModel) addToScarcity(p *usageProfile, t *typicalDemand, k *hardware.Class) {
	scarcity := &p.scarcity.whole
	if f.wantsSharedDevices(t) {
		scarcity = &p.scarcity.shares
	}
	*scarcity = min(*scarcity+t.pressure*t.servedFraction(k), 1)
}

// canUseAllOn reports whether the task can use the GPUs of an agent, which are
// equal.
func (t *typicalDemand) canUseAllOn(r *agentCapacity) bool {
	m := t.requirement.MatchOn(r.hardware)
	if r.hasDeviceIDs {
		return m.AllSlots
	}
	return m.AllCounted
}

// usesAllOrNone reports whether each typical task can use all GPUs of the
// hardware or none of them.
func (f *fragmentationModel) usesAllOrNone(k *hardware.Class) bool {
	return *f.allOrNone.Get(k.ID, func() bool { return f.computeAllOrNone(k) })
}

func (f *fragmentationModel) computeAllOrNone(k *hardware.Class) bool {
	return !slices.ContainsFunc(f.tasks, func(t typicalDemand) bool {
		m := t.requirement.MatchOn(k)
		return t.gpus > 0 && (!m.AllSlots && m.Slots.Len() > 0 || k.Divisible && t.wantsShares && t.gpus > 1)
	})
}

func sortUnique[T int32 | int64](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

// countUpTo counts the sorted values that are at most x.
func countUpTo[T int32 | int64](sorted []T, x T) int {
	n, _ := slices.BinarySearch(sorted, x+1)
	return n
}
