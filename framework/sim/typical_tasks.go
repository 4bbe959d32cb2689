package sim

import (
	"cmp"
	"slices"
	"strings"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
)

// typicalPercent is how many percent of a trace's tasks its typical tasks represent.
const typicalPercent = 95

// taskShape is equal for tasks of one kind. Memory does not count.
type taskShape struct {
	// cpus and milli are thousandths; models are the accepted ones, joined to one text.
	cpus        int64
	milli, gpus int
	models      string
}

// shapeOf returns the kind of a task. The order of its models counts.
func (t *RecordedTask) shapeOf() taskShape {
	return taskShape{t.CPUMilli, t.GPUMilli, t.GPUs, strings.Join(t.Models, "|")}
}

// compareTo orders kinds by size. It is a total order.
func (s taskShape) compareTo(o taskShape) int {
	return cmp.Or(cmp.Compare(s.cpus, o.cpus), cmp.Compare(s.milli, o.milli), cmp.Compare(s.gpus, o.gpus), cmp.Compare(s.models, o.models))
}

// TypicalTasks returns the kinds of task that make up 95 % of a trace's tasks, the most frequent first, the largest first
// among equals. Tasks without GPUs count too.
func (t *ClusterTrace) TypicalTasks() []fit.TypicalTask {
	count := map[taskShape]int{}
	for i := range t.Tasks {
		count[t.Tasks[i].shapeOf()]++
	}
	var order []taskShape
	for s := range count {
		order = append(order, s)
	}
	slices.SortFunc(order, func(a, b taskShape) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), b.compareTo(a))
	})
	var list []fit.TypicalTask
	covered := 0
	for _, s := range order {
		if 100*covered >= typicalPercent*len(t.Tasks) {
			break
		}
		covered += count[s]
		list = append(list, fit.TypicalTask{Demand: s.fitDemand(), Weight: float64(count[s])})
	}
	return list
}

// fitDemand returns the demand of a task of the kind, without memory and a name.
func (s taskShape) fitDemand() fit.Demand {
	t := RecordedTask{CPUMilli: s.cpus, GPUs: s.gpus, GPUMilli: s.milli}
	d := t.fitDemand()
	if s.models != "" {
		d.Request.Types = gpu.TypeSelector{Include: strings.Split(s.models, "|")}
	}
	return d
}
