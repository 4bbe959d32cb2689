package sched

import (
	"cmp"
	"slices"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/job"
)

// Fragmentation is measured against what the cluster usually runs: the kinds
// of task that make up mostTasks of those remembered, at most maxKinds
// (Q. Weng et al., "Beware of Fragmentation", USENIX ATC 2023).
const (
	mostTasks = 0.95
	maxKinds  = 128
)

// workload counts the tasks of the jobs remembered by what they want.
type workload struct {
	kinds   map[string]*fit.Typical
	typical []fit.Typical // nil: to be made anew
}

// add counts a job in, or out with sign -1.
func (w *workload) add(s *job.Spec, p *Policy, sign int) {
	d := fit.Demand{Amount: Amount{CPUs: s.CPUs, MemMiB: s.MemMiB}, Request: s.Request}
	key := d.Key()
	k := w.kinds[key]
	if k == nil {
		d.Amount, d.Overhead = p.need(s), p.Overhead
		k = &fit.Typical{Demand: d}
		w.kinds[key] = k
	}
	if k.Weight += float64(sign * s.Tasks); k.Weight <= 0 {
		delete(w.kinds, key)
	}
	w.typical = nil
}

// most are the usual kinds, the most frequent first.
func (w *workload) most() []fit.Typical {
	if w.typical != nil {
		return w.typical
	}
	keys := make([]string, 0, len(w.kinds))
	all := 0.0
	for key, k := range w.kinds {
		keys = append(keys, key)
		all += k.Weight
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(w.kinds[b].Weight, w.kinds[a].Weight), cmp.Compare(a, b))
	})
	covered := 0.0
	w.typical = []fit.Typical{}
	for _, key := range keys {
		if covered >= mostTasks*all || len(w.typical) >= maxKinds {
			break
		}
		covered += w.kinds[key].Weight
		w.typical = append(w.typical, *w.kinds[key])
	}
	return w.typical
}
