package sched

import (
	"cmp"
	"slices"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/job"
)

// dispensable are n tasks of a service: those that serve nobody now first,
// then those in the places that its constraints find fullest, then the
// youngest. Each that goes leaves its places emptier for the next.
func (s *State) dispensable(j *job.Job, n int) []string {
	var list []*job.Task
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.KillReason != job.ByScale {
			list = append(list, t)
		}
	}
	c := s.crowds(j, min(n, len(list)) < len(list))
	before := func(a, b *job.Task) int {
		return cmp.Or(cmp.Compare(serves(a), serves(b)), cmp.Compare(c.around(b), c.around(a)), b.Started.Compare(a.Started), cmp.Compare(b.Index, a.Index))
	}
	if len(c) == 0 {
		slices.SortFunc(list, before)
	}
	ids := make([]string, min(n, len(list)))
	for i := range ids {
		at := 0
		if len(c) > 0 {
			at = slices.Index(list, slices.MinFunc(list, before))
		}
		ids[i] = list[at].ID
		c.leave(list[at])
		list = slices.Delete(list, at, at+1)
	}
	return ids
}

// crowd counts a group's tasks by the values that one constraint compares.
type crowd struct {
	of    func(t *job.Task) string // "" is none
	count map[string]int
}

type crowds []crowd

// crowds are those of the job's constraints that depend on where its tasks
// are; none where nobody has to choose.
func (s *State) crowds(j *job.Job, choose bool) crowds {
	if !choose || !slices.ContainsFunc(j.Spec.Constraints, spreads) {
		return nil
	}
	agents := s.count(s.now).byID
	var all crowds
	for _, con := range j.Spec.Constraints {
		if !spreads(con) {
			continue
		}
		c := crowd{of: func(t *job.Task) string { return placeOf(agents, t, con.Field) }, count: map[string]int{}}
		for _, other := range s.grouped(j) {
			for i := range other.Tasks {
				if t := &other.Tasks[i]; t.State.Placed() && t.KillWanted.IsZero() {
					c.count[c.of(t)]++
				}
			}
		}
		all = append(all, c)
	}
	return all
}

// spreads tells the constraints that keep tasks apart.
func spreads(c job.Constraint) bool { return c.PerJob() && c.Operator != job.Cluster }

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

// around is how many tasks are where the task is, itself among them, over all
// constraints.
func (c crowds) around(t *job.Task) int {
	n := 0
	for _, one := range c {
		if at := one.of(t); at != "" {
			n += one.count[at]
		}
	}
	return n
}

func (c crowds) leave(t *job.Task) {
	for _, one := range c {
		one.count[one.of(t)]--
	}
}
