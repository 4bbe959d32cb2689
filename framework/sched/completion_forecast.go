package sched

import (
	"cmp"
	"slices"

	"mesos-gpu/framework/sched/fit"
)

// taskEnds are a role's tasks of which is known when they end, in that order.
type taskEnds struct {
	ending, all    []taskEnd // those that were asked to; those and the others
	anyPreemptible bool      // somebody of the role may be preempted
}

// taskEnd is a task that ends, and the index of its agent: -1 if that is not there.
type taskEnd struct {
	*RunningTask
	at int
}

// taskEndsOf finds a role's once a plan.
func (pl *planner) taskEndsOf(role string) *taskEnds {
	if e := pl.taskEnds[role]; e != nil {
		return e
	}
	e := &taskEnds{}
	pl.taskEnds[role] = e
	for i := range pl.queue.Running {
		r := &pl.queue.Running[i]
		if r.Spec.Role != role || r.Stuck {
			continue
		}
		e.anyPreemptible = e.anyPreemptible || !r.Ending && r.Spec.Preemptible
		if r.Ends.IsZero() {
			continue
		}
		e.all = append(e.all, pl.locateTask(r))
	}
	for _, one := range sortByEnd(e.all) {
		if one.Ending {
			e.ending = append(e.ending, one)
		}
	}
	return e
}

// sortByEnd puts them in the order of their ends.
func sortByEnd(list []taskEnd) []taskEnd {
	slices.SortFunc(list, func(a, b taskEnd) int {
		return cmp.Or(a.Ends.Compare(b.Ends), cmp.Compare(a.TaskID, b.TaskID))
	})
	return list
}

func (pl *planner) locateTask(r *RunningTask) taskEnd {
	return taskEnd{r, pl.cluster.indexOf(r.AgentID, r.Spec.Role)}
}

func (pl *planner) locateTasks(list []RunningTask) []taskEnd {
	ends := make([]taskEnd, len(list))
	for i := range list {
		ends[i] = pl.locateTask(&list[i])
	}
	return ends
}

// agentLeftover is what an agent had free that offers nothing now, by its index.
type agentLeftover struct {
	fit.TaskResources
	at int
}

// leftoversOf finds what a role's agents have left, once a plan.
func (pl *planner) leftoversOf(role string) []agentLeftover {
	list, known := pl.leftovers[role]
	if known {
		return list
	}
	for _, at := range pl.cluster.byRole[role] {
		if a := &pl.agents[at]; len(a.Offers) == 0 {
			if h := pl.leftoverOf(a); isUsableBy(&h, nil) {
				list = append(list, agentLeftover{h, at})
			}
		}
	}
	pl.leftovers[role] = list
	return list
}

// planBuffers is memory for what plans imagine.
type planBuffers struct {
	withLeftovers, forecast partitionedCluster
	pending                 []*fit.TaskResources // of later, by agent
	unplaced                []PendingReason
}

// completionForecast is a role's agents as they will be, task by task that ends.
type completionForecast struct {
	*partitionedCluster
	p *Policy
	// pending is what agents have left that known left out: it counts once a task
	// of theirs has ended.
	pending []*fit.TaskResources
}

// newForecast begins with what is known.
func (pl *planner) newForecast(c *partitionedCluster, d *fit.Demand) completionForecast {
	s := pl.buffers
	s.forecast.copyRole(c, d.Role)
	s.pending = slices.Grow(s.pending[:0], len(pl.agents))[:len(pl.agents)]
	for _, at := range c.byRole[d.Role] {
		s.pending[at] = nil
	}
	left := pl.leftoversOf(d.Role)
	for i := range left {
		if h := &left[i]; !isUsableBy(&h.TaskResources, d) {
			s.pending[h.at] = &h.TaskResources
		}
	}
	return completionForecast{&s.forecast, pl.policy, s.pending}
}

// completeTask has a task ended, and returns the index of its agent among its role's
// part; -1 if it is not there.
func (l *completionForecast) completeTask(e *taskEnd) int {
	if e.at < 0 {
		return -1
	}
	if h := l.pending[e.at]; h != nil {
		l.releaseAt(e.at, *h)
		l.pending[e.at] = nil
	}
	l.releaseAt(e.at, taskHolding(e.RunningTask, l.p))
	_, at := l.locate(e.at)
	return at
}
