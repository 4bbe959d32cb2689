package sched

import (
	"cmp"
	"maps"
	"slices"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// maxTypicalKinds is how many kinds of task are typical at most; so many others may count as rare ones.
const maxTypicalKinds = 128

// taskMix counts the tasks of all remembered jobs by their demand.
type taskMix struct {
	// kinds has one entry for each distinct demand of remembered jobs, by fit.Demand.Key of its CPUs, memory and GPUs. Its
	// weight is the number of tasks; an entry without tasks is removed.
	kinds map[string]*fit.TypicalTask
	// typical is the result of mostFrequent. It is nil after a change of kinds.
	typical []fit.TypicalTask
}

// addJob adds the tasks of a job; sign -1 removes them.
func (m *taskMix) addJob(s *job.Spec, overhead Amount, sign int) {
	d := fit.Demand{Amount: Amount{CPUs: s.CPUs, MemMiB: s.MemMiB}, Request: s.Request}
	key := d.Key()
	k := m.kinds[key]
	if k == nil {
		d.Amount, d.Overhead = queue.TaskAmount(s, overhead), overhead
		k = &fit.TypicalTask{Demand: d}
		m.kinds[key] = k
	}
	if k.Weight += float64(sign * s.Tasks); k.Weight <= 0 {
		delete(m.kinds, key)
	}
	m.typical = nil
}

// mostFrequent returns the typical and the rare tasks among the remembered ones, the most frequent first.
func (m *taskMix) mostFrequent() []fit.TypicalTask {
	if m.typical != nil {
		return m.typical
	}
	keys := slices.SortedFunc(maps.Keys(m.kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.kinds[b].Weight, m.kinds[a].Weight), cmp.Compare(a, b))
	})
	kinds := make([]fit.TypicalTask, 0, len(keys))
	for _, key := range keys {
		kinds = append(kinds, *m.kinds[key])
	}
	m.typical = fit.SelectTypicalTasks(kinds, maxTypicalKinds)
	return m.typical
}
