package sched

import (
	"cmp"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/job"
)

// readyQueue is what may be placed now, as Place wants it, but for agents.
func (s *State) readyQueue(now time.Time) Queue { return s.readyIn(&line{}, now) }

// readyIn is readyQueue in memory that is used again.
func (s *State) readyIn(memory *line, now time.Time) Queue {
	q := Queue{
		Now: now, AllShared: s.shared, Yielded: map[string]bool{},
		Waiting: memory.waiting[:0], Running: memory.running[:0],
	}
	for id, at := range s.yielded {
		if now.Sub(at) >= s.cfg.YieldEvery {
			delete(s.yielded, id)
			continue
		}
		q.Yielded[id] = true
	}
	var groups map[group][]string
	tasks, list := memory.tasks[:0], s.queued()
	for i := range list {
		j := list[i].Job
		if j.Spec.Group != "" && groups == nil {
			groups = s.groups()
		}
		var w Job
		if w, tasks = s.readyTasks(now, j, groups, tasks); len(w.Tasks) > 0 {
			w.wish = s.wishOf(&list[i])
			q.Waiting = append(q.Waiting, w)
		}
		for t := range j.Tasks {
			if j.Tasks[t].State.Placed() {
				q.Running = append(q.Running, s.running(now, j, &j.Tasks[t]))
			}
		}
	}
	q.Running = append(q.Running, s.gone(now)...)
	q.wishes = s.fleet.line.wishes
	memory.waiting, memory.running, memory.tasks = q.Waiting, q.Running, tasks
	return q
}

// ready are the tasks of a job that may start: those of a gang only when none
// of it is still placed and none has to pause, none of a job that waits for
// others, and no more than may hold places at a time.
func (s *State) ready(now time.Time, j *job.Job, groups map[group][]string) Job {
	w, _ := s.readyTasks(now, j, groups, nil)
	return w
}

// readyTasks is ready with the tasks appended to a list.
func (s *State) readyTasks(now time.Time, j *job.Job, groups map[group][]string, list []Waiting) (Job, []Waiting) {
	w, from := Job{Spec: &j.Spec, Submitted: j.Submitted}, len(list)
	paused, waits := false, false
	for i := range j.Tasks {
		switch t := &j.Tasks[i]; {
		case t.State == job.Waiting && t.NotBefore.After(now):
			paused, waits = true, true
		case t.State == job.Waiting:
			list, waits = append(list, Waiting{ID: t.ID, Index: i}), true
		}
	}
	if !waits {
		return w, list
	}
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.State.Placed() {
			w.Beside = append(w.Beside, t.AgentID)
		}
	}
	w.Unfit, w.Tasks = unfits(j), list[from:len(list):len(list)]
	if j.Spec.Gang && (paused || len(w.Beside) > 0) || len(j.Spec.WaitsFor()) > 0 {
		w.Tasks = nil
	}
	if most := j.Spec.MaxParallel; most > 0 {
		w.Tasks = w.Tasks[:min(len(w.Tasks), max(most-len(w.Beside), 0))]
	}
	if j.Spec.Group != "" {
		w.Beside = groups[groupOf(&j.Spec)]
	}
	return w, list
}

// group names jobs whose tasks constraints count together.
type group struct{ role, name string }

func groupOf(spec *job.Spec) group { return group{spec.Role, spec.Group} }

// groups are the agents of the groups' placed tasks, one each.
func (s *State) groups() map[group][]string {
	groups := map[group][]string{}
	for _, j := range s.queued() {
		if j.Spec.Group == "" {
			continue
		}
		g := groupOf(&j.Spec)
		for i := range j.Tasks {
			if t := &j.Tasks[i]; t.State.Placed() {
				groups[g] = append(groups[g], t.AgentID)
			}
		}
	}
	return groups
}

// overrun is how much longer than announced a task may run before nobody
// counts on its end any more.
func overrun(runs time.Duration) time.Duration { return max(runs/10, time.Minute) }

func (s *State) running(now time.Time, j *job.Job, t *job.Task) Running {
	r := Running{
		TaskID: t.ID, AgentID: t.AgentID, Spec: &j.Spec,
		GPUTypes: t.GPUTypes, DeviceIDs: t.DeviceIDs, Parts: t.Parts, Ports: t.Ports, Since: t.Changed,
	}
	if !t.Started.IsZero() {
		r.Since = t.Started
	}
	switch runs := j.Spec.Runs(); {
	case !t.KillWanted.IsZero():
		r.Ending, r.Ends = true, t.KillWanted.Add(j.Spec.KillGrace+endSlack)
		r.Stuck = r.Ends.Before(now)
	case runs > 0 && !r.Since.Add(runs+overrun(runs)).Before(now):
		r.Ends = r.Since.Add(runs)
	}
	r.Stuck = r.Stuck || t.State == job.Unreachable || s.shut(t.Hostname, t.AgentID)
	return r
}

// DefaultRole is the role of jobs that name none.
func (s *State) DefaultRole() string { return s.cfg.Policy.defaultRole() }

// roleOf is the role whose offers a job uses, from its submission on.
func (s *State) roleOf(spec *job.Spec) string { return cmp.Or(spec.Role, s.cfg.Policy.defaultRole()) }

func (p *Policy) defaultRole() string {
	if len(p.Roles) == 0 {
		return ""
	}
	return p.Roles[0].Name
}

// preemptible reports whether a job that waits might have another's place.
func preemptible(q *Queue) bool {
	most := map[string]int{}
	for i := range q.Waiting {
		w := &q.Waiting[i]
		if p, ok := most[w.Spec.Role]; !ok || w.Spec.Priority > p {
			most[w.Spec.Role] = w.Spec.Priority
		}
	}
	return slices.ContainsFunc(q.Running, func(r Running) bool {
		p, ok := most[r.Spec.Role]
		return ok && r.Spec.Preemptible && !r.Ending && !r.Stuck && r.Spec.Priority < p
	})
}

// mayPreempt is preemptible as far as a glance tells.
func (s *State) mayPreempt() bool {
	return slices.ContainsFunc(s.queued(), func(j queued) bool { return j.Spec.Preemptible })
}

// stillThere is how long what an agent had free counts as such when it is not
// offered any more: others may have taken it.
const stillThere = time.Minute

// leftovers is known without agents whose offers are in hand, and without what
// they had free where that counts no more.
func (s *State) leftovers(now time.Time) []fit.Agent {
	inHand := map[agentKey]bool{}
	for _, h := range s.pool.offers {
		inHand[agentKey{h.AgentID, h.Role}] = true
	}
	all := s.known(inHand)
	for i := range all {
		if a := &all[i]; !s.counts(agentKey{a.ID, a.Role}, now) {
			empty(a)
		}
	}
	return all
}

// known joins what was offered with the master's list: an agent that others
// use up is never offered, and has the type all the same. Those to leave out
// are.
func (s *State) known(without map[agentKey]bool) []fit.Agent {
	all := make([]fit.Agent, 0, max(len(s.agents)-len(without), 0))
	listed := map[string]bool{}
	for key, a := range s.agents {
		listed[key.id] = true
		if !without[key] {
			a.TotalGPUs, a.AllShared = s.cluster[key.id].GPUs, s.shared[key.id]
			all = append(all, a.Agent)
		}
	}
	for id, c := range s.cluster {
		if listed[id] {
			continue
		}
		for _, role := range s.roleNames() {
			if without[agentKey{id, role}] {
				continue
			}
			all = append(all, fit.Agent{
				ID: id, Role: role, Hostname: c.Hostname, Types: c.Types, Inventory: c.Inventory, TotalGPUs: c.GPUs, AllShared: c.Shared,
				Driver: c.Driver, CUDA: c.CUDA, Attributes: c.Attributes, Region: c.Region, Zone: c.Zone,
			})
		}
	}
	slices.SortFunc(all, func(a, b fit.Agent) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Role, b.Role)) })
	return all
}

// roleNames are all roles, the default first.
func (s *State) roleNames() []string {
	if len(s.cfg.Policy.Roles) == 0 {
		return []string{""}
	}
	names := make([]string, len(s.cfg.Policy.Roles))
	for i, r := range s.cfg.Policy.Roles {
		names[i] = r.Name
	}
	return names
}

// lastSeen is known with what the offers in hand have free. Agents that take no
// tasks have what they last offered.
func (s *State) lastSeen() []fit.Agent {
	all := fit.Join(s.inHand())
	held := map[agentKey]bool{}
	for i := range all {
		held[agentKey{all[i].ID, all[i].Role}] = true
		all[i].TotalGPUs, all[i].AllShared = s.cluster[all[i].ID].GPUs, s.shared[all[i].ID]
	}
	return append(all, s.known(held)...)
}
