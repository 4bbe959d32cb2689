package sched

import (
	"maps"
	"slices"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// ExplainInfeasible returns what a job, which need not be submitted, lacks if it cannot start on the agents of the master's
// list even if nothing else runs. It returns false if it could, or if not all agents are listed yet.
func (s *State) ExplainInfeasible(spec *job.Spec) (placement.PendingCause, bool) {
	capacity, isComplete := s.totalCapacity()
	if !isComplete {
		return placement.PendingCause{}, false
	}
	return s.explainInfeasible(capacity, &queue.WaitingJob{Spec: spec}, spec.Tasks)
}

// explainInfeasible is ExplainInfeasible for a job of which a number of tasks start together if it is a gang. capacity is a
// complete totalCapacity.
func (s *State) explainInfeasible(capacity *fit.TotalCapacity, j *queue.WaitingJob, tasks int) (placement.PendingCause, bool) {
	if !j.Spec.Gang {
		tasks = 1
	}
	d := j.TaskDemand(s.cfg.Policy.Overhead, nil)
	short := capacity.ExplainInfeasible(&d, tasks)
	if short == nil {
		return placement.PendingCause{}, false
	}
	return placement.PendingCause{Needs: short.Missing, Available: short.Found}, true
}

// totalCapacity returns what the agents have in total. It returns false if an agent offers what the list does not have of it:
// its totals are not known. The result is kept until the list of agents or the policy changes.
func (s *State) totalCapacity() (c *fit.TotalCapacity, isComplete bool) {
	unlisted := map[string]fit.AgentResources{}
	isComplete = len(s.listedAgents) > 0
	check := func(offered *fit.AgentResources) {
		if a, listed := s.listedAgents[offered.ID]; !listed {
			unlisted[offered.ID] = *offered
		} else if !a.hasAllOf(offered) {
			isComplete = false
		}
	}
	for _, last := range s.lastOffered {
		check(&last.AgentResources)
	}
	for key := range s.conflicts {
		if _, whole := s.explainConflict(key); whole != nil {
			check(whole)
		}
	}
	for _, h := range s.offers.offers {
		for a := range fit.JoinOffers([]*Offer{h.Offer}) {
			check(&a)
		}
	}
	if s.totals != nil && len(unlisted) == 0 {
		return s.totals, isComplete
	}
	agents := make([]fit.AgentResources, 0, len(s.listedAgents)+len(unlisted))
	for _, id := range slices.Sorted(maps.Keys(s.listedAgents)) {
		a := s.listedAgents[id]
		agents = append(agents, fit.AgentResources{
			ID:         id,
			Hostname:   a.Hostname,
			Types:      a.Types,
			Inventory:  a.Inventory,
			TotalGPUs:  a.GPUs,
			AllShared:  a.Shared,
			Total:      a.Total,
			AllPorts:   a.Ports,
			Driver:     a.Driver,
			CUDA:       a.CUDA,
			Attributes: a.Attributes,
			Region:     a.Region,
			Zone:       a.Zone,
		})
	}
	for _, id := range slices.Sorted(maps.Keys(unlisted)) {
		a := unlisted[id]
		a.TotalGPUs, a.AllShared = max(a.GPUs, len(a.DeviceIDs), len(a.Inventory)), a.Shared
		agents = append(agents, a)
	}
	c = fit.NewTotalCapacity(agents, s.cfg.Policy.Fit, s.now)
	if len(unlisted) > 0 {
		return c, false
	}
	s.totals = c
	return c, isComplete
}

// hasAllOf reports whether the list has the GPUs of an offer of the agent. A device may have become a shared one meanwhile.
func (a *Agent) hasAllOf(offered *fit.AgentResources) bool {
	known := max(a.GPUs, len(a.Inventory))
	if max(offered.GPUs, len(offered.DeviceIDs)) > known || len(offered.Inventory) > len(a.Inventory) || known+len(a.Shared) == 0 && offered.HasGPUs() {
		return false
	}
	for _, d := range offered.Shared {
		if !slices.ContainsFunc(a.Shared, func(s SharedDevice) bool { return s.UUID == d.UUID }) {
			return false
		}
	}
	return true
}
