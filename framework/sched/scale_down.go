package sched

import (
	"cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// selectSurplusTasks are n tasks of a service: those that serve nobody now first,
// then those in the places that its constraints find fullest, then the
// youngest.
func (s *State) selectSurplusTasks(j *job.Job, n int) []string {
	var list []*job.Task
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.KillReason != job.KillByScaling {
			list = append(list, t)
		}
	}
	var constraints []job.Constraint
	if n < len(list) { // else nobody has to choose
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

// countSpread are the tasks that the job's constraints count, and where each is.
func (s *State) countSpread(j *job.Job, constraints []job.Constraint) (job.SpreadCounter, func(t *job.Task, field string) string) {
	all := job.NewSpreadCounter(constraints)
	if len(all) == 0 {
		return nil, nil
	}
	agents := s.explainer().AgentsByID()
	value := func(t *job.Task, field string) string { return placeValue(agents, t, field) }
	for _, other := range s.jobsInGroup(j) {
		for i := range other.Tasks {
			if t := &other.Tasks[i]; t.State.IsPlaced() && (t.KillRequested.IsZero() || other == j && t.KillReason != job.KillByScaling) {
				all.AddTask(func(field string) string { return value(t, field) })
			}
		}
	}
	return all, value
}

// jobsInGroup are the jobs whose tasks the job's constraints count.
func (s *State) jobsInGroup(j *job.Job) []*job.Job {
	if j.Spec.Group == "" {
		return []*job.Job{j}
	}
	var list []*job.Job
	for _, name := range s.queue {
		if other := s.jobs[name]; queue.GroupKeyOf(&other.Spec) == queue.GroupKeyOf(&j.Spec) {
			list = append(list, other)
		}
	}
	return list
}

// placeValue is what a placed task's agent has of a field, as far as the last
// offers and the last list of agents tell.
func placeValue(agents map[string]*fit.AgentResources, t *job.Task, field string) string {
	a := agents[t.AgentID]
	if a == nil {
		a = &fit.AgentResources{Hostname: t.Hostname}
	}
	if !t.State.IsPlaced() {
		return ""
	}
	value, _ := a.FieldValue(field)
	return value
}
