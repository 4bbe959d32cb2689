package sim

import (
	"math"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// PolicyNames returns the policies of RunSeed: those of the scheduler and those from the literature.
func PolicyNames() []string { return append(fit.PolicyNames(), fit.BaselineNames()...) }

// ValidatePolicyName returns an error with all names if there is no policy of that name.
func ValidatePolicyName(name string) error { return fit.ValidatePolicyName(name, PolicyNames()) }

// SeedRun is the result of one policy on the tasks of one seed.
type SeedRun struct {
	Seed int64
	// Decisions is the number of tasks that arrived, Unplaced that of tasks that found no place.
	Decisions, Unplaced int
	// Allocation is the percentage of all GPUs in use by the percentage that the tasks decided so far have requested:
	// the mean over the arrivals that round to that percentage. Percentages without an arrival are missing.
	Allocation map[int]float64
	// Fragmentation is the percentage of all GPUs that is idle at the end and unusable for a typical task.
	Fragmentation float64
	// Types is the percentage in use of the GPUs of each model at the end.
	Types map[string]float64
}

// RunSeed lets the tasks of a seed arrive one by one. Each is placed or rejected when it arrives or, with a capacity above
// 1, while up to that many wait. No task leaves. Equal arguments give equal runs.
func (t *ClusterTrace) RunSeed(policy string, typical []fit.TypicalTask, seed int64, capacity int) *SeedRun {
	a := t.drawArrivals(seed)
	c := fit.NewCluster(a.agents, fit.PlacementPolicy{Name: policy, Typical: typical, Seed: uint64(seed)}, time.Time{})
	all := float64(t.CountGPUs() * milliPerGPU)
	m := percentMeter{}
	run := &SeedRun{Seed: seed, Decisions: len(a.tasks)}
	models := map[string]int64{}
	arrived, used := int64(0), int64(0)
	decide := func(task *RecordedTask) {
		arrived += task.totalMilli()
		d := task.fitDemand()
		if places := c.PlaceTasks(&d, 1); len(places) == 1 {
			used += task.totalMilli()
			models[c.Agents()[places[0].Agent].Types[0]] += task.totalMilli()
		} else {
			run.Unplaced++
		}
		m.addValue(100*float64(arrived)/all, 100*float64(used)/all)
	}
	q := decisionQueue{capacity: capacity}
	for _, task := range a.tasks {
		if next := q.addTask(task, c); next != nil {
			decide(next)
		}
	}
	for next := q.nextTask(c); next != nil; next = q.nextTask(c) {
		decide(next)
	}
	run.Allocation = m.means()
	run.Fragmentation = 100 * c.MeasureFragmentation(typical) * milliPerGPU / all
	run.Types = t.percentByModel(models)
	return run
}

// percentByModel returns the thousandths in use of each model in percent of those there are.
func (t *ClusterTrace) percentByModel(models map[string]int64) map[string]float64 {
	all, use := map[string]int64{}, map[string]float64{}
	for i := range t.Agents {
		all[t.Agents[i].Model] += int64(t.Agents[i].GPUs) * milliPerGPU
	}
	for model, n := range all {
		if n > 0 {
			use[model] = 100 * float64(models[model]) / float64(n)
		}
	}
	return use
}

// percentMeter computes means of values by a percentage.
type percentMeter map[int]*struct {
	sum float64
	n   int
}

// addValue adds a value at a percentage, which is rounded.
func (m percentMeter) addValue(percent, value float64) {
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

// means returns the mean by rounded percentage.
func (m percentMeter) means() map[int]float64 {
	list := make(map[int]float64, len(m))
	for at, x := range m {
		list[at] = x.sum / float64(x.n)
	}
	return list
}
