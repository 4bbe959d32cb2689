package sched

import (
	"cmp"
	"slices"
	"time"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// freedPlaces are the places of tasks that have ended, until Mesos has had the time to offer them again. Plans treat those
// that are not offered yet as about to be free, so that no task is preempted for a job that will start there.
type freedPlaces []freedPlace

type freedPlace struct {
	queue.RunningTask
	// until is when the place is forgotten even if no offer has arrived.
	until time.Time
}

// freedPlaceTimeout is how long Mesos takes at most to offer a freed place: it allocates each second, and the
// scheduler's own refusals last some seconds. reclaimedPlaceTimeout applies to places with GPUs if roles reclaim: a tardy
// offer must not cost another task its place. Without GPUs it is not known which offers have a place.
const (
	freedPlaceTimeout     = 10 * time.Second
	reclaimedPlaceTimeout = leftoverValidity
)

// recordFreedPlace remembers the place of a task that has ended, and revives offers for jobs that its end may let start.
func (s *State) recordFreedPlace(ref taskRef) {
	s.freed = append(s.freed, s.freedPlaceOf(ref.job, ref.get()))
	for role := range s.quotaBlockedRoles { // a quota may have room now
		s.offerDemands.entry(role).reviveWanted = true
	}
	clear(s.quotaBlockedRoles)
}

// freedPlaceOf returns the place of a task that was launched and has ended.
func (s *State) freedPlaceOf(j *job.Job, t *job.Task) freedPlace {
	r := placeOf(j, t)
	r.Ending, r.Ends, r.Ended, r.Stuck = true, t.Ended, true, s.isClosed(t.Hostname, t.AgentID)
	timeout := freedPlaceTimeout
	if s.cfg.Policy.Reclaims() && j.Spec.Request.GPUs > 0 {
		timeout = reclaimedPlaceTimeout
	}
	return freedPlace{r, t.Ended.Add(timeout)}
}

// restoreFreedPlaces remembers the places of the recorded tasks and attempts that ended last: the victims of a claim may
// have ended just before the last leader did, and Mesos may not have offered their places yet. Those that had expired at
// the last recorded change are left out.
func (s *State) restoreFreedPlaces(jobs []*job.Job, attempts []job.Task) {
	type endedTask struct {
		*job.Task
		job *job.Job
	}
	var ended []endedTask
	var lastChange time.Time
	add := func(j *job.Job, t *job.Task) {
		if t.Changed.After(lastChange) {
			lastChange = t.Changed
		}
		if !t.State.IsLive() && !t.Launched.IsZero() && !t.Ended.IsZero() {
			ended = append(ended, endedTask{t, j})
		}
	}
	for _, j := range jobs {
		for i := range j.Tasks {
			add(j, &j.Tasks[i])
		}
	}
	for i := range attempts {
		if j, ok := s.jobs.FindRun(attempts[i].RunID()); ok {
			add(j, &attempts[i])
		}
	}
	for _, e := range ended {
		if p := s.freedPlaceOf(e.job, e.Task); p.until.After(lastChange) {
			s.freed = append(s.freed, p)
		}
	}
	slices.SortFunc(s.freed, func(a, b freedPlace) int {
		return cmp.Or(a.Ends.Compare(b.Ends), cmp.Compare(a.TaskID, b.TaskID))
	})
}

// dropOffered forgets the places that new offers may have. An offer need not have all places that were freed before it
// arrived: the master may have made it earlier. So places with GPUs are kept if appendFreedPlaces can recognize those that
// are offered or used: by their ids, or by the number of GPUs of agents that the master has listed.
func (f *freedPlaces) dropOffered(offers []Offer, isListed func(agentID string) bool) {
	isKept := func(p *freedPlace) bool {
		return p.Spec.Request.GPUs > 0 && len(p.Shares) == 0 && (len(p.DeviceIDs) > 0 || isListed(p.AgentID))
	}
	offered := map[placement.AgentKey]bool{} // whether the agents of the other places are offered
	for i := range *f {
		if p := &(*f)[i]; !isKept(p) {
			offered[p.agentKey()] = false
		}
	}
	if len(offered) == 0 {
		return
	}
	for i := range offers {
		key := keyOfOffer(&offers[i])
		if _, hasPlace := offered[key]; hasPlace {
			offered[key] = true
		}
	}
	*f = slices.DeleteFunc(*f, func(p freedPlace) bool { return !isKept(&p) && offered[p.agentKey()] })
}

// agentKey returns where the place is.
func (p *freedPlace) agentKey() placement.AgentKey {
	return placement.AgentKey{ID: p.AgentID, Role: p.Spec.Role}
}

// appendFreedPlaces appends to the tasks that hold places the places of ended tasks that are not used again, and that
// their role sees neither in an offer nor in what the last offer of their agent left. Another role may see them: it may
// return the offer, so that they still count. Of places whose GPUs their role sees the rest counts for freedPlaceTimeout:
// Mesos offers a task's GPUs, what its executor used and the rest of the agent one by one, and to different roles.
func (s *State) appendFreedPlaces(running []queue.RunningTask) []queue.RunningTask {
	s.freed = slices.DeleteFunc(s.freed, func(p freedPlace) bool { return !p.until.After(s.now) })
	if len(s.freed) == 0 {
		return running
	}
	agents := s.agentsWithFreedPlaces()
	for i := range running {
		if r := &running[i]; agents[r.AgentID] != nil {
			agents[r.AgentID].remove(gpu.ExcludeShared(r.Spec.Request.GPUs, r.DeviceIDs, r.Shares))
		}
	}
	s.removeVisibleGPUs(agents)
	for _, p := range slices.Backward(s.freed) { // the places that were freed last are the likeliest not to be offered
		r := p.RunningTask
		if agents[r.AgentID].takePlace(&r) && (!r.GPUsOffered || s.now.Sub(r.Ends) < freedPlaceTimeout) {
			running = append(running, r)
		}
	}
	return running
}

// agentsWithFreedPlaces returns the GPUs of each agent with a freed place, all of them unseen.
func (s *State) agentsWithFreedPlaces() map[string]*unseenGPUs {
	agents := map[string]*unseenGPUs{}
	for i := range s.freed {
		id, role := s.freed[i].AgentID, s.freed[i].Spec.Role
		if agents[id] == nil {
			n := s.listedAgents[id].GPUs
			agents[id] = &unseenGPUs{isListed: n > 0, idle: gpuSet{left: n}, all: gpuSet{left: n}, byRole: map[string]*gpuSet{}}
		}
		if agents[id].byRole[role] == nil {
			agents[id].byRole[role] = &gpuSet{left: s.listedAgents[id].GPUs}
		}
	}
	return agents
}

// removeVisibleGPUs removes the GPUs that each role sees: those in its offers or, on an agent without offers to it, what
// its last offer left. All roles together see those in offers or, without any, what the newest offer left.
func (s *State) removeVisibleGPUs(agents map[string]*unseenGPUs) {
	offered := map[placement.AgentKey]bool{}
	for _, h := range s.offers.offers {
		a := agents[h.AgentID]
		if a == nil {
			continue
		}
		offered[placement.AgentKey{ID: h.AgentID}], offered[keyOfOffer(h.Offer)] = true, true
		a.all.remove(h.GPUs, h.DeviceIDs)
		if of := a.byRole[h.Role]; of != nil {
			of.remove(h.GPUs, h.DeviceIDs)
		}
	}
	roles := s.roleNames()
	for id, a := range agents {
		var newest *agentSnapshot
		for _, role := range roles {
			key := placement.AgentKey{ID: id, Role: role}
			last := s.leftover(key, s.now)
			if last == nil {
				continue
			}
			if newest == nil || last.isNewer(newest) {
				newest = last
			}
			if of := a.byRole[role]; of != nil && !offered[key] {
				of.remove(last.GPUs, last.DeviceIDs)
			}
		}
		if newest != nil && !offered[placement.AgentKey{ID: id}] {
			a.all.remove(newest.GPUs, newest.DeviceIDs)
		}
	}
}

// unseenGPUs are the GPUs of an agent that no task holds, by what Mesos has offered of them.
type unseenGPUs struct {
	// isListed reports that the master has listed the agent: only then the numbers of GPUs are known.
	isListed bool
	// idle contains the GPUs that no task holds, all the idle GPUs that are in no offer to any role, and byRole the idle
	// GPUs in no offer to one role that has a freed place there.
	idle, all gpuSet
	byRole    map[string]*gpuSet
}

// gpuSet is GPUs of one agent: left is their number, removed are the ids of all others.
type gpuSet struct {
	left    int
	removed []string
}

func (g *gpuSet) remove(gpus int, ids []string) {
	g.left -= gpus
	g.removed = append(g.removed, ids...)
}

// remove removes GPUs that no role may get.
func (u *unseenGPUs) remove(gpus int, ids []string) {
	u.idle.remove(gpus, ids)
	u.all.remove(gpus, ids)
	for _, of := range u.byRole {
		of.remove(gpus, ids)
	}
}

// takePlace reports whether the place of an ended task may be among the GPUs, and removes it from them. It marks the place
// if another role or its own role sees it.
func (u *unseenGPUs) takePlace(r *queue.RunningTask) bool {
	n := r.Spec.Request.GPUs
	if n == 0 || len(r.Shares) > 0 {
		return true
	}
	of := u.byRole[r.Spec.Role]
	switch {
	case u.mayHave(&u.all, r):
		u.remove(n, nil)
	case u.mayHave(of, r):
		of.remove(n, nil)
		r.OfferedElsewhere = true
	case u.mayHave(&u.idle, r):
		u.idle.remove(n, nil)
		r.GPUsOffered = true
	default:
		return false
	}
	return true
}

// mayHave reports whether the place of an ended task may be among some of the GPUs.
func (u *unseenGPUs) mayHave(g *gpuSet, r *queue.RunningTask) bool {
	if len(r.DeviceIDs) > 0 {
		return !slices.ContainsFunc(r.DeviceIDs, func(id string) bool { return slices.Contains(g.removed, id) })
	}
	return !u.isListed || g.left >= r.Spec.Request.GPUs
}
