package sched

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// maxPrunedUnits bounds the search for victims that need not be.
const maxPrunedUnits = 16

// victimUnit is what is preempted together: a task, or a whole gang.
type victimUnit struct {
	priority int
	since    time.Time
	tasks    []RunningTask
}

// selectVictims chooses the tasks that must go so that n tasks of the job fit: of
// lower priority, of the same role, and willing. The lowest priority goes
// first, then the youngest; nobody goes whose place is not needed.
func (pl *planner) selectVictims(c *partitionedCluster, j *WaitingJob, d *fit.Demand, n int, ending []RunningTask) []RunningTask {
	units := pl.preemptibleUnits(j)
	if len(units) == 0 {
		return nil
	}
	var ended []RunningTask // as large as it ever must be after the first call
	fits := func(units []victimUnit) bool {
		ended = append(ended[:0], ending...)
		for _, u := range units {
			ended = append(ended, u.tasks...)
		}
		_, ok := pl.fitsAfterTasks(c, d, n, ended)
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
	victims := tasksOfUnits(units)
	for i := range victims {
		v := &victims[i]
		v.Ending, v.Ends = true, pl.queue.Now.Add(v.Spec.KillGrace+exitSlack)
		pl.plan.Preempt = append(pl.plan.Preempt, PreemptionVictim{TaskID: v.TaskID, ForJob: j.Spec.Name})
	}
	return victims
}

// preemptibleUnits are those that may go, in the order in which they do.
func (pl *planner) preemptibleUnits(j *WaitingJob) []victimUnit {
	gangs := map[string]int{}
	var units []victimUnit
	for _, r := range pl.queue.Running {
		if r.Spec.Role != j.Spec.Role || r.Ending || r.Stuck || !r.Spec.Preemptible || r.Spec.Priority >= j.Spec.Priority {
			continue
		}
		if at, ok := gangs[r.Spec.Name]; ok && r.Spec.Gang {
			units[at].tasks = append(units[at].tasks, r)
			continue
		}
		gangs[r.Spec.Name] = len(units)
		units = append(units, victimUnit{priority: r.Spec.Priority, since: r.Since, tasks: []RunningTask{r}})
	}
	slices.SortStableFunc(units, func(a, b victimUnit) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), b.since.Compare(a.since), cmp.Compare(a.tasks[0].TaskID, b.tasks[0].TaskID))
	})
	return units
}

func tasksOfUnits(units []victimUnit) []RunningTask {
	var list []RunningTask
	for _, u := range units {
		list = append(list, u.tasks...)
	}
	return list
}
