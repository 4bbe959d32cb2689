package sched

import (
	"cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/job"
)

// selectSurplusTasks returns n tasks of a service to stop: tasks that do not serve first, then those in the fullest
// places by its constraints, then the youngest.
func (s *State) selectSurplusTasks(j *job.Job, n int) []string {
	var list []*job.Task
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.KillReason != job.KillByScaling {
			list = append(list, t)
		}
	}
	var constraints []job.Constraint
	if n < len(list) { // otherwise all are stopped
		constraints = j.Spec.Constraints
	}
	crowds, value := s.countSpread(j, constraints)
	first := func(a, b *job.Task) int { return cmp.Compare(readinessRank(a), readinessRank(b)) }
	last := func(a, b *job.Task) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.Index, a.Index)) }
	var ids []string
	for t := range job.EvictionOrder(crowds, list, value, first, last) {
		if len(ids) == n {
			break
		}
		ids = append(ids, t.ID)
	}
	return ids
}

// readinessRank is higher for tasks that are closer to serving.
func readinessRank(t *job.Task) int {
	switch {
	case t.State == job.Waiting:
		return 0
	case !t.KillRequested.IsZero():
		return 1
	case t.State == job.Unreachable:
		return 2
	case t.State != job.Running:
		return 3
	case t.Healthy != nil && !*t.Healthy:
		return 4
	default:
		return 5
	}
}

// countSpread returns the tasks that the job's constraints count, and a function for the place of each.
func (s *State) countSpread(j *job.Job, constraints []job.Constraint) (job.SpreadCounter, func(t *job.Task, field string) string) {
	all := job.NewSpreadCounter(constraints)
	if len(all) == 0 {
		return nil, nil
	}
	agents := s.explainer().Agents()
	value := func(t *job.Task, field string) string { // according to the last offers and the last list of agents
		if !t.State.IsPlaced() {
			return ""
		}
		if field == job.GPUTypeField && len(t.GPUTypes) == 1 {
			for gpuType := range t.GPUTypes {
				return gpuType // what the task holds, not what its agent has
			}
		}
		a := fit.FindAgentByID(agents, t.AgentID)
		if a == nil {
			a = &fit.AgentResources{Hostname: t.Hostname}
		}
		value, _ := a.FieldValue(field)
		return value
	}
	for _, other := range s.jobsInGroup(j) {
		for i := range other.Tasks {
			if t := &other.Tasks[i]; t.State.IsPlaced() && (t.KillRequested.IsZero() || other == j && t.KillReason != job.KillByScaling) {
				all.AddTask(func(field string) string { return value(t, field) })
			}
		}
	}
	return all, value
}
