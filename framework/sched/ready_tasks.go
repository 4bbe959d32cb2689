package sched

import (
	"cmp"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/job"
)

// newPlacementQueue is what may be placed now, as Place wants it, but for agents.
func (s *State) newPlacementQueue(now time.Time) PlacementQueue {
	return s.fillPlacementQueue(&queueCache{}, now)
}

// fillPlacementQueue is newPlacementQueue in memory that is used again.
func (s *State) fillPlacementQueue(memory *queueCache, now time.Time) PlacementQueue {
	q := PlacementQueue{
		Now: now, AllShared: s.sharedDevices, ReturnedAgents: map[string]bool{},
		Waiting: memory.waiting[:0], Running: memory.running[:0],
	}
	for id, at := range s.returnedAt {
		if now.Sub(at) >= s.cfg.ReturnOffersEvery {
			delete(s.returnedAt, id)
			continue
		}
		q.ReturnedAgents[id] = true
	}
	var groups map[groupKey][]string
	tasks, list := memory.tasks[:0], s.queuedJobs()
	for i := range list {
		j := list[i].Job
		if j.Spec.Group != "" && groups == nil {
			groups = s.agentsByGroup()
		}
		var w WaitingJob
		if w, tasks = s.appendReadyTasks(now, j, groups, tasks); len(w.Tasks) > 0 {
			w.demand = s.demandNumberOf(&list[i])
			q.Waiting = append(q.Waiting, w)
		}
		for t := range j.Tasks {
			if j.Tasks[t].State.IsPlaced() {
				q.Running = append(q.Running, s.runningTask(now, j, &j.Tasks[t]))
			}
		}
	}
	q.Running = append(q.Running, s.freedPlaces(now)...)
	q.demandNumbers = s.cache.queue.numbers
	memory.waiting, memory.running, memory.tasks = q.Waiting, q.Running, tasks
	return q
}

// readyJob are the tasks of a job that may start: those of a gang only when none
// of it is still placed and none has to pause, none of a job that waits for
// others, and no more than may hold places at a time.
func (s *State) readyJob(now time.Time, j *job.Job, groups map[groupKey][]string) WaitingJob {
	w, _ := s.appendReadyTasks(now, j, groups, nil)
	return w
}

// appendReadyTasks is ready with the tasks appended to a list.
func (s *State) appendReadyTasks(now time.Time, j *job.Job, groups map[groupKey][]string, list []WaitingTask) (WaitingJob, []WaitingTask) {
	w, from := WaitingJob{Spec: &j.Spec, Submitted: j.Submitted}, len(list)
	paused, waits := false, false
	for i := range j.Tasks {
		switch t := &j.Tasks[i]; {
		case t.State == job.Waiting && t.NotBefore.After(now):
			paused, waits = true, true
		case t.State == job.Waiting:
			list, waits = append(list, WaitingTask{ID: t.ID, Index: i}), true
		}
	}
	if !waits {
		return w, list
	}
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.State.IsPlaced() {
			w.PeerAgents = append(w.PeerAgents, t.AgentID)
		}
	}
	w.ImageExclusions, w.Tasks = imageExclusions(j), list[from:len(list):len(list)]
	if j.Spec.Gang && (paused || len(w.PeerAgents) > 0) || len(j.Spec.UnmetDependencies()) > 0 {
		w.Tasks = nil
	}
	if most := j.Spec.MaxParallel; most > 0 {
		w.Tasks = w.Tasks[:min(len(w.Tasks), max(most-len(w.PeerAgents), 0))]
	}
	if j.Spec.Group != "" {
		w.PeerAgents = groups[groupKeyOf(&j.Spec)]
	}
	return w, list
}

// groupKey names jobs whose tasks constraints count together.
type groupKey struct{ role, name string }

func groupKeyOf(spec *job.Spec) groupKey { return groupKey{spec.Role, spec.Group} }

// agentsByGroup are the agents of the groups' placed tasks, one each.
func (s *State) agentsByGroup() map[groupKey][]string {
	groups := map[groupKey][]string{}
	for _, j := range s.queuedJobs() {
		if j.Spec.Group == "" {
			continue
		}
		g := groupKeyOf(&j.Spec)
		for i := range j.Tasks {
			if t := &j.Tasks[i]; t.State.IsPlaced() {
				groups[g] = append(groups[g], t.AgentID)
			}
		}
	}
	return groups
}

// maxOverrun is how much longer than announced a task may run before nobody
// counts on its end any more.
func maxOverrun(runs time.Duration) time.Duration { return max(runs/10, time.Minute) }

func (s *State) runningTask(now time.Time, j *job.Job, t *job.Task) RunningTask {
	r := RunningTask{
		TaskID: t.ID, AgentID: t.AgentID, Spec: &j.Spec,
		GPUTypes: t.GPUTypes, DeviceIDs: t.DeviceIDs, Shares: t.Shares, Ports: t.Ports, Since: t.Changed,
	}
	if !t.Started.IsZero() {
		r.Since = t.Started
	}
	switch runs := j.Spec.ExpectedRunTime(); {
	case !t.KillRequested.IsZero():
		r.Ending, r.Ends = true, t.KillRequested.Add(j.Spec.KillGrace+exitSlack)
		r.Stuck = r.Ends.Before(now)
	case runs > 0 && !r.Since.Add(runs+maxOverrun(runs)).Before(now):
		r.Ends = r.Since.Add(runs)
	}
	r.Stuck = r.Stuck || t.State == job.Unreachable || s.isClosed(t.Hostname, t.AgentID)
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

// hasPreemptible reports whether a job that waits might have another's place.
func hasPreemptible(q *PlacementQueue) bool {
	most := map[string]int{}
	for i := range q.Waiting {
		w := &q.Waiting[i]
		if p, ok := most[w.Spec.Role]; !ok || w.Spec.Priority > p {
			most[w.Spec.Role] = w.Spec.Priority
		}
	}
	return slices.ContainsFunc(q.Running, func(r RunningTask) bool {
		p, ok := most[r.Spec.Role]
		return ok && r.Spec.Preemptible && !r.Ending && !r.Stuck && r.Spec.Priority < p
	})
}

// hasPreemptibleJob is preemptible as far as a glance tells.
func (s *State) hasPreemptibleJob() bool {
	return slices.ContainsFunc(s.queuedJobs(), func(j cachedJob) bool { return j.Spec.Preemptible })
}

// leftoverValidity is how long what an agent had free counts as such when it is not
// offered any more: others may have taken it.
const leftoverValidity = time.Minute

// agentsWithLeftovers is known without agents whose offers are in hand, and without what
// they had free where that counts no more.
func (s *State) agentsWithLeftovers(now time.Time) []fit.AgentResources {
	inHand := map[agentKey]bool{}
	for _, h := range s.offers.offers {
		inHand[agentKey{h.AgentID, h.Role}] = true
	}
	all := s.knownAgents(inHand)
	for i := range all {
		if a := &all[i]; !s.isLeftoverValid(agentKey{a.ID, a.Role}, now) {
			clearFree(a)
		}
	}
	return all
}

// knownAgents joins what was offered with the master's list: an agent that others
// use up is never offered, and has the type all the same. Those to leave out
// are.
func (s *State) knownAgents(without map[agentKey]bool) []fit.AgentResources {
	all := make([]fit.AgentResources, 0, max(len(s.lastOffered)-len(without), 0))
	listed := map[string]bool{}
	for key, a := range s.lastOffered {
		listed[key.id] = true
		if !without[key] {
			a.TotalGPUs, a.AllShared = s.listedAgents[key.id].GPUs, s.sharedDevices[key.id]
			all = append(all, a.AgentResources)
		}
	}
	for id, c := range s.listedAgents {
		if listed[id] {
			continue
		}
		for _, role := range s.roleNames() {
			if without[agentKey{id, role}] {
				continue
			}
			all = append(all, fit.AgentResources{
				ID: id, Role: role, Hostname: c.Hostname, Types: c.Types, Inventory: c.Inventory, TotalGPUs: c.GPUs, AllShared: c.Shared,
				Driver: c.Driver, CUDA: c.CUDA, Attributes: c.Attributes, Region: c.Region, Zone: c.Zone,
			})
		}
	}
	slices.SortFunc(all, func(a, b fit.AgentResources) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Role, b.Role)) })
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

// allAgents is known with what the offers in hand have free. Agents that take no
// tasks have what they last offered.
func (s *State) allAgents() []fit.AgentResources {
	all := fit.JoinOffers(s.heldOffers())
	held := map[agentKey]bool{}
	for i := range all {
		held[agentKey{all[i].ID, all[i].Role}] = true
		all[i].TotalGPUs, all[i].AllShared = s.listedAgents[all[i].ID].GPUs, s.sharedDevices[all[i].ID]
	}
	return append(all, s.knownAgents(held)...)
}
