package fit

import (
	"slices"

	"mesos-gpu/job"
)

// gpusField is the field of constraints with the number of free GPUs.
const gpusField = "@gpus"

// exclusionStage excludes agents for one cause.
type exclusionStage struct {
	cause    job.ExclusionCause
	excludes func(i int) bool
}

// CountExclusions returns how many agents each cause excludes for one task of the demand, in the order of the causes.
// Each agent is counted at the first cause that excludes it.
func (c *Cluster) CountExclusions(d *Demand) []job.ExclusionCount {
	q := c.newExplainer(d)
	var left []int
	for _, i := range q.index.roleAgents(q.class.roleID) {
		left = append(left, int(i))
	}
	agents := c.countAgents()
	counts := []job.ExclusionCount{{Cause: job.ExcludedByRole, Agents: agents, Excluded: agents - len(left)}}
	for _, s := range q.exclusionStages() {
		rest := filterIndices(left, func(i int) bool { return !s.excludes(i) })
		counts = append(counts, job.ExclusionCount{Cause: s.cause, Agents: len(left), Excluded: len(left) - len(rest)})
		left = rest
	}
	return counts
}

// countAgents counts the agents. One that offers to several roles is there once for each, next to each other.
func (c *Cluster) countAgents() int {
	n, last := 0, ""
	for i := range c.index.agents {
		if id := c.index.agents[i].ID; i == 0 || id != last {
			n, last = n+1, id
		}
	}
	return n
}

// exclusionStages returns the stages after that of the role, in the order of their causes.
func (e *demandExplainer) exclusionStages() []exclusionStage {
	gpuRules, constraints, maintenance := e.gpuRules(), e.constraintRules(func(c job.Constraint) bool { return !e.leavesGPUs(c) }), e.maintenanceRules()
	scarce := e.constraintRules(e.leavesGPUs)
	allowed := allowedByAll(e.newCounters(e.demand, e.class))
	stages := []exclusionStage{
		{job.ExcludedByConstraint, func(i int) bool { return failsAny(constraints, i) || !allowed(i) }},
		{job.ExcludedByMaintenance, func(i int) bool { return e.index.agents[i].Closed || failsAny(maintenance, i) }},
		{job.ExcludedForScarceGPUs, func(i int) bool { return failsAny(scarce, i) }},
	}
	enough := e.hasEnoughGPUs
	if e.demand.Request.NeedsSameType() {
		enough = e.hasEnoughOfOneType()
	}
	resources := plainResources()
	lacks := func(x plainResource) func(i int) bool {
		return func(i int) bool { return x.availableOn(e, i) < x.need(e.class) }
	}
	return append(stages,
		exclusionStage{job.ExcludedByCPUs, lacks(resources[0])},
		exclusionStage{job.ExcludedByMemory, lacks(resources[1])},
		exclusionStage{job.ExcludedByDisk, lacks(resources[2])},
		exclusionStage{job.ExcludedByGPUs, func(i int) bool {
			return e.class.gpus > 0 && (!e.hasType(i) || failsAny(gpuRules, i) || !enough(i))
		}},
		exclusionStage{job.ExcludedByPorts, func(i int) bool {
			return lacks(resources[3])(i) || slices.ContainsFunc(e.class.hostPorts, func(p int) bool { return p != 0 && findRange(e.capacities[i].ports, p) < 0 })
		}},
	)
}

// leavesGPUs reports whether a constraint of a job without GPUs requires agents without free GPUs.
func (e *demandExplainer) leavesGPUs(c job.Constraint) bool {
	return e.class.gpus == 0 && c.Field == gpusField && c.Operator == job.Is && c.Value == "0"
}
