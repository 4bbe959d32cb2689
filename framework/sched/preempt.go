package sched

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// maxPruned bounds the search for victims that need not be.
const maxPruned = 16

// unit is what is preempted together: a task, or a whole gang.
type unit struct {
	priority int
	since    time.Time
	tasks    []Running
}

// preempt chooses the tasks that must go so that n tasks of the job fit: of
// lower priority, of the same role, and willing. The lowest priority goes
// first, then the youngest; nobody goes whose place is not needed.
func (pl *placing) preempt(c *clusters, j *Job, d *fit.Demand, n int, ending []Running) []Running {
	units := pl.units(j)
	if len(units) == 0 {
		return nil
	}
	var ended []Running // as large as it ever must be after the first call
	fits := func(units []unit) bool {
		ended = append(ended[:0], ending...)
		for _, u := range units {
			ended = append(ended, u.tasks...)
		}
		_, ok := pl.room(c, d, n, ended)
		return ok
	}
	if !fits(units) {
		return nil
	}
	units = units[:sort.Search(len(units), func(k int) bool { return fits(units[:k]) })]
	for i := 0; i < len(units) && i < maxPruned; {
		if without := slices.Delete(slices.Clone(units), i, i+1); fits(without) {
			units = without
		} else {
			i++
		}
	}
	victims := tasksOf(units)
	for i := range victims {
		v := &victims[i]
		v.Ending, v.Ends = true, pl.q.Now.Add(v.Spec.KillGrace+endSlack)
		pl.plan.Preempt = append(pl.plan.Preempt, Victim{TaskID: v.TaskID, For: j.Spec.Name})
	}
	return victims
}

// units are those that may go, in the order in which they do.
func (pl *placing) units(j *Job) []unit {
	gangs := map[string]int{}
	var units []unit
	for _, r := range pl.q.Running {
		if r.Spec.Role != j.Spec.Role || r.Ending || r.Stuck || !r.Spec.Preemptible || r.Spec.Priority >= j.Spec.Priority {
			continue
		}
		if at, ok := gangs[r.Spec.Name]; ok && r.Spec.Gang {
			units[at].tasks = append(units[at].tasks, r)
			continue
		}
		gangs[r.Spec.Name] = len(units)
		units = append(units, unit{priority: r.Spec.Priority, since: r.Since, tasks: []Running{r}})
	}
	slices.SortStableFunc(units, func(a, b unit) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), b.since.Compare(a.since), cmp.Compare(a.tasks[0].TaskID, b.tasks[0].TaskID))
	})
	return units
}

func tasksOf(units []unit) []Running {
	var list []Running
	for _, u := range units {
		list = append(list, u.tasks...)
	}
	return list
}
