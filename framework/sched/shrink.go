package sched

import (
	"cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/job"
)

// dispensable are n tasks of a service: those that serve nobody now first,
// then those in the places that its constraints find fullest, then the
// youngest.
func (s *State) dispensable(j *job.Job, n int) []string {
	var list []*job.Task
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.KillReason != job.ByScale {
			list = append(list, t)
		}
	}
	var constraints []job.Constraint
	if n < len(list) { // else nobody has to choose
		constraints = j.Spec.Constraints
	}
	crowds, value := s.crowds(j, constraints)
	first := func(a, b *job.Task) int { return cmp.Compare(serves(a), serves(b)) }
	last := func(a, b *job.Task) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.Index, a.Index)) }
	var ids []string
	for t := range job.Leaving(crowds, list, value, first, last) {
		if len(ids) == n {
			break
		}
		ids = append(ids, t.ID)
	}
	return ids
}

// crowds are the tasks that the job's constraints count, and where each is.
func (s *State) crowds(j *job.Job, constraints []job.Constraint) (job.Crowds, func(t *job.Task, field string) string) {
	all := job.CrowdsOf(constraints)
	if len(all) == 0 {
		return nil, nil
	}
	agents := s.count(s.now).byID
	value := func(t *job.Task, field string) string { return placeOf(agents, t, field) }
	for _, other := range s.grouped(j) {
		for i := range other.Tasks {
			if t := &other.Tasks[i]; t.State.Placed() && (t.KillWanted.IsZero() || other == j && t.KillReason != job.ByScale) {
				all.Add(func(field string) string { return value(t, field) })
			}
		}
	}
	return all, value
}

// grouped are the jobs whose tasks the job's constraints count.
func (s *State) grouped(j *job.Job) []*job.Job {
	if j.Spec.Group == "" {
		return []*job.Job{j}
	}
	var list []*job.Job
	for _, name := range s.queue {
		if other := s.jobs[name]; groupOf(&other.Spec) == groupOf(&j.Spec) {
			list = append(list, other)
		}
	}
	return list
}

// placeOf is what a placed task's agent has of a field, as far as the last
// offers and the last list of agents tell.
func placeOf(agents map[string]*fit.Agent, t *job.Task, field string) string {
	a := agents[t.AgentID]
	if a == nil {
		a = &fit.Agent{Hostname: t.Hostname}
	}
	if !t.State.Placed() {
		return ""
	}
	value, _ := a.Field(field)
	return value
}
