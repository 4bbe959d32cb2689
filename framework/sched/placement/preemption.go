package placement

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// ExitSlack is how long after its kill grace a task may take to disappear.
const ExitSlack = 5 * time.Second

// maxPrunedUnits limits how many selected victims are checked for being unnecessary.
const maxPrunedUnits = 16

// victimUnit lists tasks that are preempted together: one task, or all tasks of a gang.
type victimUnit struct {
	// priority is the job's priority; lower ones are preempted first.
	priority int
	// since is when the first task started; among equal priorities the youngest is preempted first.
	since time.Time
	tasks []taskEnd
}

// selectVictims returns preemptible tasks of the job's role with a lower priority that must end so that n tasks of the
// job fit, given that the ending tasks end too. The lowest priority goes first, then the youngest. For GPUs of the same type
// it compares the choices for each type. It returns nil if no choice makes enough room, or if it is too early for the job's
// PreemptAfter: within that time the victims are only warned.
func (f *forecaster) selectVictims(base *PartitionedCluster, j *queue.WaitingJob, d *fit.Demand, n int, ending []taskEnd) []queue.RunningTask {
	victims := f.chooseVictims(base, j, d, n, ending)
	for i := range victims {
		if f.isEarlyFor(j, victims[i].Spec) {
			return nil
		}
	}
	return victims
}

// isEarlyFor reports whether a task would get SIGTERM for the job before the job's PreemptAfter has passed.
func (f *forecaster) isEarlyFor(j *queue.WaitingJob, victim *job.Spec) bool {
	wait := j.Spec.PreemptAfter
	return wait > 0 && f.in.Now.Add(victim.WarningTime()).Before(j.Submitted.Add(wait))
}

// chooseVictims is selectVictims at any time.
func (f *forecaster) chooseVictims(base *PartitionedCluster, j *queue.WaitingJob, d *fit.Demand, n int, ending []taskEnd) []queue.RunningTask {
	units := f.preemptibleUnits(j)
	if len(units) == 0 {
		return nil
	}
	if !d.Request.NeedsSameType() {
		return f.victimsAmong(units, base, d, n, ending)
	}
	var fewest []queue.RunningTask
	for _, typed := range base.partition(d.Role).DemandsByType(d) {
		victims := f.victimsAmong(units, base, &typed, n, ending)
		if len(victims) > 0 && (fewest == nil || compareVictims(victims, fewest) < 0) {
			fewest = victims
		}
	}
	return fewest
}

// compareVictims orders choices of victims: those with the lowest highest priority first, then the fewest.
func compareVictims(a, b []queue.RunningTask) int {
	highest := func(victims []queue.RunningTask) int {
		return slices.MaxFunc(victims, func(x, y queue.RunningTask) int { return cmp.Compare(x.Spec.Priority, y.Spec.Priority) }).Spec.Priority
	}
	return cmp.Or(cmp.Compare(highest(a), highest(b)), cmp.Compare(len(a), len(b)))
}

// victimsAmong is selectVictims for given units, in their order of preference.
func (f *forecaster) victimsAmong(units []victimUnit, base *PartitionedCluster, d *fit.Demand, n int, ending []taskEnd) []queue.RunningTask {
	var ended []taskEnd // grows to its largest size in the first call
	fits := func(units []victimUnit) bool {
		ended = append(ended[:0], ending...)
		for _, u := range units {
			ended = append(ended, u.tasks...)
		}
		_, ok := f.placeAfter(base, d, n, ended)
		return ok
	}
	if !fits(units) {
		return nil
	}
	units = units[:sort.Search(len(units), func(k int) bool { return fits(units[:k]) })]
	for i := 0; i < len(units) && i < maxPrunedUnits; {
		if without := slices.Delete(slices.Clone(units), i, i+1); fits(without) {
			units = without
		} else {
			i++
		}
	}
	var victims []queue.RunningTask
	for _, u := range units {
		for _, t := range u.tasks {
			v := *t.RunningTask
			v.Ending, v.Ends = true, f.in.Now.Add(v.Spec.EvictionGrace()+ExitSlack)
			victims = append(victims, v)
		}
	}
	return victims
}

// preemptibleUnits returns what the job may preempt, in the order of preference.
func (f *forecaster) preemptibleUnits(j *queue.WaitingJob) []victimUnit {
	early := true // for all of them
	gangs := map[string]int{}
	var units []victimUnit
	for i := range f.in.Running {
		r := &f.in.Running[i]
		if r.Spec.Role != j.Spec.Role || r.Ending || r.Stuck || !r.IsPreemptible(f.in.Now) || r.Spec.Priority >= j.Spec.Priority {
			continue
		}
		early = early && f.isEarlyFor(j, r.Spec)
		t := f.locateTask(r)
		if at, ok := gangs[r.Spec.Name]; ok && r.Spec.Gang {
			units[at].tasks = append(units[at].tasks, t)
			continue
		}
		gangs[r.Spec.Name] = len(units)
		units = append(units, victimUnit{priority: r.Spec.Priority, since: r.Since, tasks: []taskEnd{t}})
	}
	if early {
		return nil
	}
	slices.SortStableFunc(units, func(a, b victimUnit) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), b.since.Compare(a.since), cmp.Compare(a.tasks[0].TaskID, b.tasks[0].TaskID))
	})
	return units
}
