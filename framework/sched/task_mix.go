package sched

import (
	"cmp"
	"maps"
	"slices"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// Fragmentation is measured against the typical tasks of the cluster: the kinds of task that make up typicalShare of all
// remembered ones, at most maxTypicalKinds (Q. Weng et al., "Beware of Fragmentation", USENIX ATC 2023).
const (
	typicalShare    = 0.95
	maxTypicalKinds = 128
)

// taskMix counts the tasks of all remembered jobs by their demand.
type taskMix struct {
	// kinds has one entry for each distinct demand of remembered jobs, by fit.Demand.Key of its CPUs, memory and GPUs. Its
	// weight is the number of tasks; an entry without tasks is removed.
	kinds map[string]*fit.TypicalTask
	// typical is the result of mostFrequent. It is nil after a change of kinds.
	typical []fit.TypicalTask
}

// addJob adds the tasks of a job; sign -1 removes them.
func (w *taskMix) addJob(s *job.Spec, overhead Amount, sign int) {
	d := fit.Demand{Amount: Amount{CPUs: s.CPUs, MemMiB: s.MemMiB}, Request: s.Request}
	key := d.Key()
	k := w.kinds[key]
	if k == nil {
		d.Amount, d.Overhead = queue.TaskAmount(s, overhead), overhead
		k = &fit.TypicalTask{Demand: d}
		w.kinds[key] = k
	}
	if k.Weight += float64(sign * s.Tasks); k.Weight <= 0 {
		delete(w.kinds, key)
	}
	w.typical = nil
}

// mostFrequent returns the typical tasks, the most frequent first.
func (w *taskMix) mostFrequent() []fit.TypicalTask {
	if w.typical != nil {
		return w.typical
	}
	all := 0.0
	for _, k := range w.kinds {
		all += k.Weight
	}
	keys := slices.SortedFunc(maps.Keys(w.kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(w.kinds[b].Weight, w.kinds[a].Weight), cmp.Compare(a, b))
	})
	covered := 0.0
	w.typical = []fit.TypicalTask{}
	for _, key := range keys {
		if covered >= typicalShare*all || len(w.typical) >= maxTypicalKinds {
			break
		}
		covered += w.kinds[key].Weight
		w.typical = append(w.typical, *w.kinds[key])
	}
	return w.typical
}
