package fit

import (
	"cmp"
	"math"
	"slices"
)

// The policy headroom is FGD with three additions.
//
// FGD counts idle GPUs as usable for a typical task if the agent's CPUs suffice for one such task. If the CPUs do not
// suffice for as many tasks as the GPUs could run, GPUs stay idle. So the GPUs that lack CPUs count as unusable, with
// the weight cpuStarvationWeight.
//
// FGD values all models equally as long as each has room. GPUs of a model that many typical tasks require cost up to
// scarcityWeight points of a score, so that tasks for any model use other models first.
//
// Typical tasks do not represent the few that are larger. If few agents have the largest size, an idle one of them
// costs sizeWeight.
const (
	cpuStarvationWeight = 0.07
	scarcityWeight      = 8
	sizeWeight          = 1
)

// scoreHeadroom is FGD's score with CPUs taken into account, minus the cost of
// scarce GPUs and of the agent's size. It only ranks: a scarce agent still gets
// the task if no other fits.
func scoreHeadroom(c *Cluster, i int, cl *demandClass) int64 {
	f := c.index.fragmentation
	if !f.enabled {
		return scoreFragmentation(c, i, cl)
	}
	r := &c.capacities[i]
	k := scoreFragmentation(c, i, cl) + scarcityWeight + sizeWeight
	if cl.gpus > 0 {
		k -= int64(math.Round(scarcityWeight * f.scarcityOf(r.hardware, cl.wantsShares && f.hasSharedDevices)))
	}
	if f.largestAgents.isIdleMatch(r) {
		k -= sizeWeight
	}
	return k
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
