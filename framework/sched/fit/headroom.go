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
// usable, the part hungerWeighs counts only as far as the CPUs go.
//
// FGD values all models alike as long as each has room. GPUs of a model that
// many typical tasks insist on cost up to scarcityWeighs points of a score, so
// that work that any model serves leaves them alone while others are free.
//
// And typical tasks say nothing of the few that want more than they do. Where
// few agents are the largest, one that is idle costs sizeWeighs.
const (
	hungerWeighs   = 0.07
	scarcityWeighs = 8
	sizeWeighs     = 1
)

// mostHeadroom ranks by FGD's score, measured with the CPUs in mind, less
// what the agent's scarce GPUs and its size cost. It ranks and never refuses:
// the last agents that will do get the task.
func mostHeadroom(c *Cluster, i int, cl *class) int64 {
	f := c.world.frag
	if !f.on {
		return leastFragmented(c, i, cl)
	}
	r := &c.rooms[i]
	k := leastFragmented(c, i, cl) + scarcityWeighs + sizeWeighs
	if cl.gpus > 0 {
		k -= int64(math.Round(scarcityWeighs * f.scarcity(c.world, r.kind, cl.shared && f.parts)))
	}
	if f.large.is(r) {
		k -= sizeWeighs
	}
	return k
}

// hungry are typical tasks that take the same GPUs.
type hungry struct {
	gpus  int
	level uint16 // of a slot that one of one GPU takes
	tasks []appetite
}

// appetite is how many GPU thousandths tasks take for each thousandth of a
// CPU: those with the smallest run out of CPUs first.
type appetite struct{ weight, gpuPerCPU float64 }

// feed adds a typical task that needs CPUs to the profile's.
func (p *profile) feed(t *typical, level uint16) {
	if t.need.cpus <= 0 {
		return
	}
	one := appetite{t.weight, float64(t.gpus*t.milli) / float64(t.need.cpus)}
	at := slices.IndexFunc(p.hungry, func(h hungry) bool { return h.gpus == t.gpus && h.level == level })
	if at < 0 {
		at = len(p.hungry)
		p.hungry = append(p.hungry, hungry{gpus: t.gpus, level: level})
	}
	tasks := &p.hungry[at].tasks
	in, same := slices.BinarySearchFunc(*tasks, one, func(a, b appetite) int { return cmp.Compare(a.gpuPerCPU, b.gpuPerCPU) })
	if same {
		(*tasks)[in].weight += one.weight
		return
	}
	*tasks = slices.Insert(*tasks, in, one)
}

// starved is how much of what is usable the CPUs do not reach, weighted.
// levels has what is free of slots by level, of full GPUs the last.
func (p *profile) starved(cpus int64, full int, levels []float64) float64 {
	for l := len(levels) - 2; l >= 0; l-- {
		levels[l] += levels[l+1] // a task takes slots of its level and above
	}
	sum := 0.0
	for i := range p.hungry {
		h := &p.hungry[i]
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
