package sim

import (
	"cmp"
	"slices"
	"strings"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
)

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

// TypicalTasks returns the typical and the rare tasks of a trace, the most frequent first, the largest first among equals.
// Tasks without GPUs count too.
func (t *ClusterTrace) TypicalTasks() []fit.TypicalTask {
	var kinds []fit.TypicalTask
	for _, c := range t.countShapes() {
		kinds = append(kinds, fit.TypicalTask{Demand: c.shape.fitDemand(), Weight: float64(c.tasks)})
	}
	return fit.SelectTypicalTasks(kinds, len(kinds))
}

// shapeCount is how many tasks of a trace are of one kind.
type shapeCount struct {
	shape taskShape
	tasks int
}

// countShapes counts the tasks of each kind, the most frequent first, the largest first among equals.
func (t *ClusterTrace) countShapes() (list []shapeCount) {
	count := map[taskShape]int{}
	for i := range t.Tasks {
		count[t.Tasks[i].shapeOf()]++
	}
	for shape, n := range count {
		list = append(list, shapeCount{shape, n})
	}
	slices.SortFunc(list, func(a, b shapeCount) int {
		return cmp.Or(cmp.Compare(b.tasks, a.tasks), b.shape.compareTo(a.shape))
	})
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
