package sim

import (
	"cmp"
	"slices"
	"strings"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
)

// usual is how many percent of a trace's tasks its typical tasks stand for.
const usual = 95

// shape is what makes tasks the same kind. Memory does not.
type shape struct {
	cpus        int64
	milli, gpus int
	models      string
}

func (t *Task) shape() shape {
	return shape{t.CPUMilli, t.GPUMilli, t.GPUs, strings.Join(t.Models, "|")}
}

func (s shape) compare(o shape) int {
	return cmp.Or(cmp.Compare(s.cpus, o.cpus), cmp.Compare(s.milli, o.milli), cmp.Compare(s.gpus, o.gpus), cmp.Compare(s.models, o.models))
}

// Typical are the kinds of task that a trace has, the most frequent first and
// the largest first among equals, until they make up 95 % of its tasks. Those
// without GPUs count too.
func (t *Trace) Typical() []fit.Typical {
	count := map[shape]int{}
	for i := range t.Tasks {
		count[t.Tasks[i].shape()]++
	}
	var order []shape
	for s := range count {
		order = append(order, s)
	}
	slices.SortFunc(order, func(a, b shape) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), b.compare(a))
	})
	var list []fit.Typical
	covered := 0
	for _, s := range order {
		if 100*covered >= usual*len(t.Tasks) {
			break
		}
		covered += count[s]
		list = append(list, fit.Typical{Demand: s.demand(), Weight: float64(count[s])})
	}
	return list
}

func (s shape) demand() fit.Demand {
	t := Task{CPUMilli: s.cpus, GPUs: s.gpus, GPUMilli: s.milli}
	d := t.demand()
	if s.models != "" {
		d.Request.Types = gpu.Types{Include: strings.Split(s.models, "|")}
	}
	return d
}
