package sched

import (
	"slices"
	"time"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
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
// scheduler's own refusals last some seconds. reclaimedPlaceTimeout applies if roles deserve GPUs: a tardy offer must not
// cost another task its place.
const (
	freedPlaceTimeout     = 10 * time.Second
	reclaimedPlaceTimeout = leftoverValidity
)

// dropOffered forgets the places that new offers may have. An offer need not have all places that were freed before it
// arrived: the master may have made it earlier. So places with GPUs are kept if appendFreedPlaces can recognize those that
// are offered or used: by their ids, or by the number of GPUs of agents that the master has listed.
func (f *freedPlaces) dropOffered(offers []Offer, isListed func(agentID string) bool) {
	if len(*f) == 0 {
		return
	}
	offered := map[placement.AgentKey]bool{}
	for i := range offers {
		offered[placement.AgentKey{ID: offers[i].AgentID, Role: offers[i].Role}] = true
	}
	*f = slices.DeleteFunc(*f, func(p freedPlace) bool {
		isKept := p.Spec.Request.GPUs > 0 && len(p.Shares) == 0 && (len(p.DeviceIDs) > 0 || isListed(p.AgentID))
		return !isKept && offered[placement.AgentKey{ID: p.AgentID, Role: p.Spec.Role}]
	})
}

// appendFreedPlaces appends to the tasks that hold places the places of ended tasks that are neither offered nor used
// again, nor among what the last offers of their agents left.
func (s *State) appendFreedPlaces(running []queue.RunningTask) []queue.RunningTask {
	s.freed = slices.DeleteFunc(s.freed, func(p freedPlace) bool { return !p.until.After(s.now) })
	if len(s.freed) == 0 {
		return running
	}
	free := s.unseenGPUs(running)
	for i := range s.freed {
		if r := &s.freed[i].RunningTask; free[r.AgentID].takePlace(r) {
			running = append(running, *r)
		}
	}
	return running
}

// unseenGPUs returns, for each agent with a freed place, its GPUs that may be free although no offer shows them.
func (s *State) unseenGPUs(running []queue.RunningTask) map[string]*unseenGPUs {
	agents := map[string]*unseenGPUs{}
	for i := range s.freed {
		id := s.freed[i].AgentID
		agents[id] = &unseenGPUs{seen: map[string]bool{}, isListed: s.listedAgents[id].GPUs > 0, left: s.listedAgents[id].GPUs}
	}
	for i := range running {
		if u := agents[running[i].AgentID]; u != nil && len(running[i].Shares) == 0 {
			u.remove(running[i].Spec.Request.GPUs, running[i].DeviceIDs)
		}
	}
	offered := map[string]bool{}
	for _, h := range s.offers.offers {
		if u := agents[h.AgentID]; u != nil {
			offered[h.AgentID] = true
			u.remove(h.GPUs, h.DeviceIDs)
		}
	}
	roles := s.roleNames()
	for id, u := range agents {
		if offered[id] {
			continue
		}
		var newest *agentSnapshot
		for _, role := range roles {
			last := s.leftover(placement.AgentKey{ID: id, Role: role}, s.now)
			if last != nil && (newest == nil || last.isNewer(newest)) {
				newest = last
			}
		}
		if newest != nil {
			u.remove(newest.GPUs, newest.DeviceIDs)
		}
	}
	return agents
}

// unseenGPUs are the GPUs of an agent that no task holds and no offer has.
type unseenGPUs struct {
	// seen are the ids of all others, left is their number. It is only known if the master has listed the agent.
	seen     map[string]bool
	left     int
	isListed bool
}

func (u *unseenGPUs) remove(gpus int, ids []string) {
	u.left -= gpus
	for _, id := range ids {
		u.seen[id] = true
	}
}

// takePlace reports whether the place of an ended task may be among the GPUs, and removes it from them.
func (u *unseenGPUs) takePlace(r *queue.RunningTask) bool {
	switch n := r.Spec.Request.GPUs; {
	case n == 0 || len(r.Shares) > 0:
		return true
	case len(r.DeviceIDs) > 0:
		return !slices.ContainsFunc(r.DeviceIDs, func(id string) bool { return u.seen[id] })
	case u.isListed && u.left < n:
		return false
	default:
		u.left -= n
		return true
	}
}
