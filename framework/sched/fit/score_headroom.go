package fit

import (
	"cmp"
	"math"
	"slices"
)

// Headroom is FGD with three things more that tasks need room for.
//
// FGD counts idle GPUs as usable for a typical task if the agent's CPUs are
// enough for one such task. Where they are enough for one and not for as many
// as the GPUs would take, GPUs stay idle all the same: of what FGD takes for
// usable, the part cpuStarvationWeight counts only as far as the CPUs go.
//
// FGD values all models alike as long as each has room. GPUs of a model that
// many typical tasks insist on cost up to scarcityWeight points of a score, so
// that work that any model serves leaves them alone while others are free.
//
// And typical tasks say nothing of the few that want more than they do. Where
// few agents are the largest, one that is idle costs sizeWeight.
const (
	cpuStarvationWeight = 0.07
	scarcityWeight      = 8
	sizeWeight          = 1
)

// scoreHeadroom ranks by FGD's score, measured with the CPUs in mind, less
// what the agent's scarce GPUs and its size cost. It ranks and never refuses:
// the last agents that will do get the task.
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

// cpuBoundTasks are typical tasks that take the same GPUs.
type cpuBoundTasks struct {
	gpus  int
	level uint16 // of a slot that one of one GPU takes
	tasks []cpuRatio
}

// cpuRatio is how many GPU thousandths tasks take for each thousandth of a
// CPU: those with the smallest run out of CPUs first.
type cpuRatio struct{ weight, gpuPerCPU float64 }

// addCPUBound adds a typical task that needs CPUs to the profile's.
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

// starvedMilli is how much of what is usable the CPUs do not reach, weighted.
// levels has what is free of slots by level, of full GPUs the last.
func (p *usageProfile) starvedMilli(cpus int64, full int, levels []float64) float64 {
	for l := len(levels) - 2; l >= 0; l-- {
		levels[l] += levels[l+1] // a task takes slots of its level and above
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
