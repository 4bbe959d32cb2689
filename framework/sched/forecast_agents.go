package sched

import (
	"slices"
	"strconv"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// forecastAgents are the agents from which starts are estimated, whichever role they are offered to.
type forecastAgents struct {
	// totals is what the agents have in total. It is complete if all agents are listed.
	totals     *fit.TotalCapacity
	isComplete bool
	// free are the agents with what is free now, in the order of the agents of totals; agents that accept no tasks have
	// nothing free. index has their positions by id.
	free  []fit.AgentResources
	index map[string]int
	// cluster has the free agents.
	cluster *fit.Cluster
	// isClosed marks agents that accept no tasks.
	isClosed []bool
	// masks are the results of accepting, places those of hasPlace, by demand.
	masks  map[string][]bool
	places map[string]bool
}

// newForecastAgents returns the agents with what is free now: while jobs wait, what was offered last, and otherwise, since
// no offers arrive then, what our tasks do not hold.
func (s *State) newForecastAgents(in *placement.PlanInput) *forecastAgents {
	f := &forecastAgents{index: map[string]int{}, masks: map[string][]bool{}, places: map[string]bool{}}
	f.totals, f.isComplete = s.totalCapacity()
	f.free = slices.Clone(f.totals.Agents())
	f.isClosed = make([]bool, len(f.free))
	for i := range f.free {
		f.index[f.free[i].ID] = i
	}
	for i := range in.Running {
		r := &in.Running[i]
		if at, known := f.index[r.AgentID]; known {
			subtractTask(&f.free[at], r.Resources(s.cfg.Policy.Overhead))
		}
	}
	if len(in.Waiting) > 0 {
		for id, offered := range s.lastFree() {
			if at, known := f.index[id]; known {
				a := &f.free[at]
				a.Free, a.GPUs, a.DeviceIDs, a.Shared, a.Ports = offered.Free, offered.GPUs, offered.DeviceIDs, offered.Shared, offered.Ports
				a.Unavailable = offered.Unavailable
			}
		}
	}
	for i := range f.free {
		a := &f.free[i]
		if pause, _ := s.launchPause(a.ID, s.now); pause > 0 || s.isClosed(a.Hostname, a.ID) {
			f.isClosed[i] = true
			a.Free, a.GPUs, a.DeviceIDs, a.Shared, a.Ports = fit.Amount{}, 0, nil, nil, nil
		}
	}
	f.cluster = fit.NewCluster(f.free, fit.PlacementPolicy{Name: "binpack", Patterns: &s.patterns}, s.now)
	return f
}

// subtractTask removes what a task holds from what an agent has free.
func subtractTask(a *fit.AgentResources, r fit.TaskResources) {
	a.Free.CPUs = max(a.Free.CPUs-r.Amount.CPUs, 0)
	a.Free.MemMiB = max(a.Free.MemMiB-r.Amount.MemMiB, 0)
	a.Free.DiskMiB = max(a.Free.DiskMiB-r.Amount.DiskMiB, 0)
	a.GPUs = max(a.GPUs-max(r.GPUs, len(r.DeviceIDs)), 0)
	a.DeviceIDs = slices.DeleteFunc(slices.Clone(a.DeviceIDs), func(id string) bool { return slices.Contains(r.DeviceIDs, id) })
	a.Ports = fit.WithoutPorts(a.Ports, r.Ports)
	if len(r.Shares) > 0 {
		a.Shared = fit.SubtractShares(a.Shared, r.Shares)
	}
}

// lastFree returns what the agents had free according to the newest offers, of any role, by agent id.
func (s *State) lastFree() map[string]*fit.AgentResources {
	newest := map[string]*agentSnapshot{}
	for _, last := range s.lastOffered {
		if n := newest[last.ID]; n == nil || last.isNewer(n) {
			newest[last.ID] = last
		}
	}
	free := make(map[string]*fit.AgentResources, len(newest))
	for id, last := range newest {
		free[id] = &last.AgentResources
	}
	held := fit.CollectAgents(s.offers.heldOffers())
	for i := range held {
		free[held[i].ID] = &held[i]
	}
	return free
}

// accepting reports for each agent whether a task of the demand fits there if nothing else runs.
func (f *forecastAgents) accepting(d *fit.Demand) []bool {
	key := d.Key()
	list, known := f.masks[key]
	if !known {
		list = slices.Clone(f.totals.FittingAgents(d))
		for i := range list {
			list[i] = list[i] && !f.isClosed[i]
		}
		f.masks[key] = list
	}
	return list
}

// hasPlace reports whether a task of the job, or all tasks of a gang, would fit on what is free now.
func (f *forecastAgents) hasPlace(d *fit.Demand, j *queue.WaitingJob) bool {
	one, n := *d, 1
	one.Role = ""
	if j.Spec.Gang {
		n = len(j.Tasks)
	}
	key := one.Key() + strconv.Itoa(n)
	fits, known := f.places[key]
	if !known || len(d.PeerAgents) > 0 {
		places := f.cluster.PlaceTasks(&one, n)
		f.cluster.UndoPlacements(&one, places)
		fits = len(places) == n
		if len(d.PeerAgents) == 0 {
			f.places[key] = fits
		}
	}
	return fits
}

// needsMore reports whether tasks of the demand need what estimates do not count: certain ports, certain devices, or
// devices that are connected, unless the task takes all devices of each agent that it accepts. Disk is not counted either.
func (f *forecastAgents) needsMore(d *fit.Demand) bool {
	fixed := func(port int) bool { return port > 0 }
	if slices.ContainsFunc(d.HostPorts, fixed) || len(d.Request.Devices.Include) > 0 || d.Amount.DiskMiB > 0 && !f.hasDisk(d) {
		return true
	}
	if d.Request.Topology == "" {
		return false
	}
	agents := f.totals.Agents()
	for i, accepts := range f.accepting(d) {
		if accepts && agents[i].GPUs > d.Request.GPUs {
			return true
		}
	}
	return false
}

// hasDisk reports whether all agents that accept the demand have the disk for a task free.
func (f *forecastAgents) hasDisk(d *fit.Demand) bool {
	for i, accepts := range f.accepting(d) {
		if accepts && f.free[i].Free.DiskMiB < d.Amount.DiskMiB {
			return false
		}
	}
	return true
}

// limitPerAgent returns how many tasks of a gang may run on one agent, 0 for any number. needsMore is set for other
// constraints that depend on where the job's tasks are.
func limitPerAgent(spec *job.Spec) (limit int, needsMore bool) {
	for _, c := range spec.Constraints {
		if !c.DependsOnPeers() {
			continue
		}
		n := 1
		if c.Operator == job.MaxPer {
			n, _ = strconv.Atoi(c.Value)
		}
		if !spec.Gang || spec.Group != "" || c.Field != "hostname" || c.Operator != job.Unique && c.Operator != job.MaxPer || n < 1 {
			return 0, true
		}
		if limit == 0 || n < limit {
			limit = n
		}
	}
	return limit, false
}
