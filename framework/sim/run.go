package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// Policies lists the names that Run knows: the scheduler's own policies, and
// those from the literature.
func Policies() []string { return append(fit.Policies(), fit.Baselines()...) }

// CheckPolicy says whether there is a policy of that name, and which there
// are.
func CheckPolicy(name string) error {
	if list := Policies(); !slices.Contains(list, name) {
		return fmt.Errorf("policy %q is none of %s", name, strings.Join(list, ", "))
	}
	return nil
}

// Run is what became of one seed's tasks under one policy.
type Run struct {
	Seed int64
	// Decisions is how many tasks arrived, Unplaced how many found no place.
	Decisions, Unplaced int
	// Allocation is the percentage of all GPUs in use by how many percent of
	// them the tasks that were decided on so far have asked for: the mean over the arrivals that
	// round to that percent. Ones that none rounds to are not there.
	Allocation map[int]float64
	// Fragmentation is, once all have arrived, the percentage of all GPUs
	// that is idle and of no use to a typical task.
	Fragmentation float64
	// Types is the percentage in use of the GPUs of each model by then.
	Types map[string]float64
}

// Run has the tasks of a seed arrive one by one: each is placed or refused,
// once it has arrived or, with a queue above 1, while up to that many wait;
// and none leaves. Equal arguments give equal runs.
func (t *Trace) Run(policy string, typical []fit.Typical, seed int64, places int) *Run {
	a := t.arrivals(seed)
	c := fit.NewCluster(a.agents, fit.Policy{Name: policy, Typical: typical, Seed: uint64(seed)}, time.Time{})
	all := float64(t.GPUs() * whole)
	m := meter{}
	run := &Run{Seed: seed, Decisions: len(a.tasks)}
	models := map[string]int64{}
	arrived, used := int64(0), int64(0)
	decide := func(task *Task) {
		arrived += task.milli()
		d := task.demand()
		if spots := c.Fill(&d, 1); len(spots) == 1 {
			used += task.milli()
			models[c.Agents()[spots[0].Agent].Types[0]] += task.milli()
		} else {
			run.Unplaced++
		}
		m.add(100*float64(arrived)/all, 100*float64(used)/all)
	}
	q := queue{places: places}
	for _, task := range a.tasks {
		if next := q.put(task, c); next != nil {
			decide(next)
		}
	}
	for next := q.next(c); next != nil; next = q.next(c) {
		decide(next)
	}
	run.Allocation = m.means()
	run.Fragmentation = 100 * c.Fragmentation(typical) * whole / all
	run.Types = t.use(models)
	return run
}

// use is what the models' thousandths are of those there are, in percent.
func (t *Trace) use(models map[string]int64) map[string]float64 {
	all, use := map[string]int64{}, map[string]float64{}
	for i := range t.Agents {
		all[t.Agents[i].Model] += int64(t.Agents[i].GPUs) * whole
	}
	for model, n := range all {
		if n > 0 {
			use[model] = 100 * float64(models[model]) / float64(n)
		}
	}
	return use
}

// meter is the mean of values by a percentage.
type meter map[int]*struct {
	sum float64
	n   int
}

func (m meter) add(percent, value float64) {
	at := int(math.RoundToEven(percent))
	if m[at] == nil {
		m[at] = &struct {
			sum float64
			n   int
		}{}
	}
	m[at].sum += value
	m[at].n++
}

func (m meter) means() map[int]float64 {
	list := make(map[int]float64, len(m))
	for at, x := range m {
		list[at] = x.sum / float64(x.n)
	}
	return list
}
