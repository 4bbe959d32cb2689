package sched

import (
	"cmp"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
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
// offer must not cost another task its place. CPUs and memory are likelier to go to other frameworks.
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
// arrived: the master may have made it earlier. So places are kept if appendFreedPlaces can recognize what is offered or
// used of them.
func (s *State) dropOffered(offers []Offer) {
	offered := map[placement.AgentKey]bool{} // whether the agents of the other places are offered
	for i := range s.freed {
		if p := &s.freed[i]; !s.isRecognizable(p) {
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
	s.freed = slices.DeleteFunc(s.freed, func(p freedPlace) bool { return offered[p.agentKey()] && !s.isRecognizable(&p) })
}

// isRecognizable reports whether offers show that they have a place: by the ids of its GPUs, or by what the master has
// listed of its agent: the number of GPUs, what the devices have that tasks share, or the CPUs and memory.
func (s *State) isRecognizable(p *freedPlace) bool {
	listed := s.listedAgents[p.AgentID]
	gpus, ids := gpu.ExcludeShared(p.Spec.Request.GPUs, p.DeviceIDs, p.Shares)
	isListed := func(share gpu.DeviceShare) bool {
		return slices.ContainsFunc(listed.Shared, func(d SharedDevice) bool { return d.UUID == share.UUID })
	}
	switch {
	case gpus > 0 && len(ids) == 0 && listed.GPUs == 0:
		return false
	case gpus == 0 && len(p.Shares) == 0:
		return listed.Total.CPUs > 0 && listed.Total.MemMiB > 0
	}
	return !slices.ContainsFunc(p.Shares, func(share gpu.DeviceShare) bool { return !isListed(share) })
}

// agentKey returns where the place is.
func (p *freedPlace) agentKey() placement.AgentKey {
	return placement.AgentKey{ID: p.AgentID, Role: p.Spec.Role}
}

// appendFreedPlaces appends to the tasks that hold places the places of ended tasks, as far as they are not used again, and
// as far as their role sees them neither in an offer nor in what the last offer of their agent left. Another role may see
// them: it may return the offer, so that they still count. Of places whose GPUs their role sees the rest counts for
// freedPlaceTimeout: Mesos offers a task's GPUs, what its executor used and the rest of the agent one by one, and to
// different roles.
func (s *State) appendFreedPlaces(running []queue.RunningTask) []queue.RunningTask {
	s.freed = slices.DeleteFunc(s.freed, func(p freedPlace) bool { return !p.until.After(s.now) })
	if len(s.freed) == 0 {
		return running
	}
	agents := s.agentsWithFreedPlaces()
	for _, p := range slices.Backward(s.freed) { // the places that were freed last are the likeliest not to be offered
		place := p.Resources(s.cfg.Policy.Overhead)
		unoffered, elsewhere := agents[p.AgentID].takePlace(p.Spec.Role, &place, s.now.Sub(p.Ends) < freedPlaceTimeout)
		if unoffered.Amount != (fit.Amount{}) || hasDevices(&unoffered) {
			r := p.RunningTask
			r.FreedPart = &unoffered
			running = append(running, r)
		}
		if elsewhere.Amount != (fit.Amount{}) || hasDevices(&elsewhere) {
			r := p.RunningTask
			r.FreedPart, r.OfferedElsewhere = &elsewhere, true
			running = append(running, r)
		}
	}
	return running
}

// agentsWithFreedPlaces returns what attempts do not hold of each agent with a freed place.
func (s *State) agentsWithFreedPlaces() map[string]*unofferedResources {
	agents := map[string]*unofferedResources{}
	for i := range s.freed {
		id, role := s.freed[i].AgentID, s.freed[i].Spec.Role
		a := agents[id]
		if a == nil {
			listed := s.listedAgents[id]
			idle := newResourceSet(&listed)
			for _, h := range s.held.byAgent[id] {
				idle.remove(&fit.TaskResources{Amount: h.amount, GPUs: h.gpus, DeviceIDs: h.deviceIDs, Shares: h.shares, Ports: h.ports})
			}
			a = &unofferedResources{idle: idle, all: idle.clone(), byRole: map[string]*resourceSet{}}
			agents[id] = a
		}
		if a.byRole[role] == nil {
			of := a.idle.clone()
			a.byRole[role] = &of
		}
	}
	s.removeVisible(agents)
	return agents
}

// removeVisible removes what each role sees: its offers or, on an agent without offers to it, what its last offer left. All
// roles together see all offers or, without any, what the newest offer left.
func (s *State) removeVisible(agents map[string]*unofferedResources) {
	offered := map[placement.AgentKey]bool{}
	var offers []*Offer
	for _, h := range s.offers.offers {
		if agents[h.AgentID] != nil {
			offered[placement.AgentKey{ID: h.AgentID}], offered[keyOfOffer(h.Offer)] = true, true
			offers = append(offers, h.Offer)
		}
	}
	for o := range fit.JoinOffers(offers) {
		a := agents[o.ID]
		a.all.removeFree(&o)
		if of := a.byRole[o.Role]; of != nil {
			of.removeFree(&o)
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
				of.removeFree(&last.AgentResources)
			}
		}
		if newest != nil && !offered[placement.AgentKey{ID: id}] {
			a.all.removeFree(&newest.AgentResources)
		}
	}
}
