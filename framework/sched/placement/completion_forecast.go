package placement

import (
	"cmp"
	"slices"
	"sort"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
)

// forecaster computes when running tasks will have freed enough for a demand. Its results are for one plan; taskEnds
// and leftovers of a role are computed once, when they are first needed.
type forecaster struct {
	// in has the running tasks, from which ends are predicted.
	in *PlanInput
	// overhead is the amount that a task's executor frees.
	overhead fit.Amount
	// cluster is the cluster of the plan. The forecaster copies it and reserves resources in it.
	cluster *PartitionedCluster
	// leftoverOf returns what agents that offer nothing now probably have free.
	leftoverOf LeftoverFunc
	buffers    *PlanBuffers
	// taskEnds are the ends of running tasks by role.
	taskEnds map[string]*roleTaskEnds
	// leftovers are the results of leftoverOf by role, without agents that have nothing left.
	leftovers map[string][]agentLeftover
}

// PlanBuffers is memory that plans reuse. Only one plan may use it at a time.
type PlanBuffers struct {
	// withLeftovers is the cluster of the plan with the leftovers of one role. forecast is the copy of it in which tasks
	// are completed. Only the agents of the role that was forecast last are valid.
	withLeftovers, forecast PartitionedCluster
	// pending is used by completionForecast.
	pending []*fit.TaskResources
	// unplaced, decline and hold were produced by the last plan.
	unplaced      []PendingReason
	decline, hold []DeclinedOffer
}

// roleTaskEnds are the running tasks of a role that free their place at a known time, in the order of their ends.
type roleTaskEnds struct {
	// ending are tasks that were asked to end. all are those and the tasks whose run time is known.
	ending, all []taskEnd
	// anyPreemptible reports that a task could be selected as a victim. If not, the search for victims is skipped.
	anyPreemptible bool
}

// taskEnd is a task that ends and the index of its agent, -1 if the agent is not in the cluster.
type taskEnd struct {
	*queue.RunningTask
	agent int
}

func (f *forecaster) taskEndsOf(role string) *roleTaskEnds {
	if e := f.taskEnds[role]; e != nil {
		return e
	}
	e := &roleTaskEnds{}
	f.taskEnds[role] = e
	for i := range f.in.Running {
		r := &f.in.Running[i]
		if r.Spec.Role != role || r.Stuck {
			continue
		}
		e.anyPreemptible = e.anyPreemptible || !r.Ending && (r.Spec.Preemptible || r.Lowered)
		switch n := len(e.all); {
		case r.Ends.IsZero():
		case n > 0 && e.all[n-1].AgentID == r.AgentID: // as the task before
			e.all = append(e.all, taskEnd{r, e.all[n-1].agent})
		default:
			e.all = append(e.all, f.locateTask(r))
		}
	}
	sortByEnd(e.all)
	for _, one := range e.all {
		if one.Ending {
			e.ending = append(e.ending, one)
		}
	}
	return e
}

// endTasks replaces running tasks of a role by the same tasks that were asked to end.
func (f *forecaster) endTasks(role string, victims []queue.RunningTask) {
	ending := make(map[string]*queue.RunningTask, len(victims))
	for i := range victims {
		ending[victims[i].TaskID] = &victims[i]
	}
	in := *f.in
	in.Running = slices.Clone(in.Running)
	for i := range in.Running {
		if v := ending[in.Running[i].TaskID]; v != nil {
			in.Running[i] = *v
		}
	}
	f.in = &in
	delete(f.taskEnds, role)
}

func sortByEnd(list []taskEnd) {
	slices.SortFunc(list, func(a, b taskEnd) int {
		return cmp.Or(a.Ends.Compare(b.Ends), cmp.Compare(a.TaskID, b.TaskID))
	})
}

func (f *forecaster) locateTask(r *queue.RunningTask) taskEnd {
	return taskEnd{r, f.cluster.findAgent(r.AgentID, r.Spec.Role)}
}

// agentLeftover has the last known free resources of an agent that offers nothing now, and the agent's index.
type agentLeftover struct {
	fit.TaskResources
	agent int
}

func (f *forecaster) leftoversOf(role string) []agentLeftover {
	list, known := f.leftovers[role]
	if known {
		return list
	}
	for _, at := range f.cluster.byRole[role] {
		if a := &f.cluster.agents[at]; len(a.Offers) == 0 {
			if r := f.leftoverOf(a); r.Amount != (fit.Amount{}) || hasGPUs(&r) {
				list = append(list, agentLeftover{r, at})
			}
		}
	}
	f.leftovers[role] = list
	return list
}

func hasGPUs(r *fit.TaskResources) bool { return r.GPUs > 0 || len(r.DeviceIDs)+len(r.Shares) > 0 }

// isUsable reports whether leftovers could be a place for the demand by themselves.
func isUsable(r *fit.TaskResources, d *fit.Demand) bool { return d.Request.GPUs == 0 || hasGPUs(r) }

// clusterWithLeftovers returns the cluster of the plan with all leftovers that could be a place for the demand. It is
// valid until the next call.
func (f *forecaster) clusterWithLeftovers(d *fit.Demand) *PartitionedCluster {
	c := &f.buffers.withLeftovers
	c.copyRole(f.cluster, d.Role)
	leftovers := f.leftoversOf(d.Role)
	for i := range leftovers {
		if l := &leftovers[i]; isUsable(&l.TaskResources, d) {
			c.releaseAt(l.agent, l.TaskResources)
		}
	}
	return c
}

// completionForecast is the agents of a role as they will be when some running tasks have ended.
type completionForecast struct {
	*PartitionedCluster
	// overhead is the amount that each ended task's executor frees.
	overhead fit.Amount
	// pending are leftovers, by agent, that are no place for the demand by themselves. They count once a task on the
	// same agent has ended.
	pending []*fit.TaskResources
}

// newForecast begins with the cluster that clusterWithLeftovers returned. It is valid until the next call.
func (f *forecaster) newForecast(base *PartitionedCluster, d *fit.Demand) completionForecast {
	b := f.buffers
	b.forecast.copyRole(base, d.Role)
	b.pending = slices.Grow(b.pending[:0], len(base.agents))[:len(base.agents)]
	for _, at := range base.byRole[d.Role] {
		b.pending[at] = nil
	}
	leftovers := f.leftoversOf(d.Role)
	for i := range leftovers {
		if l := &leftovers[i]; !isUsable(&l.TaskResources, d) {
			b.pending[l.agent] = &l.TaskResources
		}
	}
	return completionForecast{&b.forecast, f.overhead, b.pending}
}

// releaseAllLeftovers frees the leftovers that are no place by themselves.
func (c *completionForecast) releaseAllLeftovers(role string) {
	for _, at := range c.byRole[role] {
		if r := c.pending[at]; r != nil {
			c.releaseAt(at, *r)
			c.pending[at] = nil
		}
	}
}

// completeTask frees the place of a task, and returns the index of its agent in the partition of the role, -1 if it is
// not there.
func (c *completionForecast) completeTask(e *taskEnd) int {
	if e.agent < 0 {
		return -1
	}
	if r := c.pending[e.agent]; r != nil {
		c.releaseAt(e.agent, *r)
		c.pending[e.agent] = nil
	}
	c.releaseAt(e.agent, e.Resources(c.overhead))
	_, at := c.locate(e.agent)
	return at
}

// placeAfter returns where n tasks fit once the given tasks have ended, and whether all n fit.
func (f *forecaster) placeAfter(base *PartitionedCluster, d *fit.Demand, n int, ended []taskEnd) ([]fit.Placement, bool) {
	forecast := f.newForecast(base, d)
	for i := range ended {
		forecast.completeTask(&ended[i])
	}
	places := forecast.PlaceTasks(d, n)
	return places, len(places) == n
}

// earliestFit returns how many tasks must end, in the order of ends, before n tasks of the demand fit, and where those
// then fit. It returns false if they never fit. Where capacity can be counted agent by agent it only grows with each
// end, so ends are applied until the count reaches n.
func (f *forecaster) earliestFit(base *PartitionedCluster, d *fit.Demand, n int, ends []taskEnd) (places []fit.Placement, k int, ok bool) {
	forecast := f.newForecast(base, d)
	count, ok := forecast.partition(d.Role).CountTasks(d, n)
	if !ok {
		return f.searchEarliestFit(base, d, n, ends)
	}
	for ; count.Tasks < n; k++ {
		if k == len(ends) {
			return nil, 0, false
		}
		if at := forecast.completeTask(&ends[k]); at >= 0 {
			count.UpdateAgent(at)
		}
	}
	return forecast.PlaceTasks(d, n), k, true
}

// searchEarliestFit is earliestFit for demands that must be placed to know whether they fit. Each step of the binary
// search starts from base.
func (f *forecaster) searchEarliestFit(base *PartitionedCluster, d *fit.Demand, n int, ends []taskEnd) (places []fit.Placement, k int, ok bool) {
	if places, ok = f.placeAfter(base, d, n, ends); !ok {
		return nil, 0, false
	}
	k = sort.Search(len(ends), func(k int) bool {
		earlier, ok := f.placeAfter(base, d, n, ends[:k])
		if ok {
			places = earlier // the last success of the search is its result
		}
		return ok
	})
	return places, k, true
}
