package sched

import (
	"time"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
)

// offerLatency is how long Mesos may take to offer free GPUs to a role that has just requested offers. Until then tasks of
// other roles are not ended for its jobs if GPUs may be free.
const offerLatency = 5 * time.Second

// offersDue returns when free GPUs must have been offered to a role, if Mesos has any for a job submitted at that time.
func (s *State) offersDue(role string, submitted time.Time) time.Time {
	since := s.subscribedAt
	for _, at := range []time.Time{s.offerDemands.entry(role).requestedAt, submitted} {
		if at.After(since) && !at.After(s.now) { // later ones were recorded before the clock was set back
			since = at
		}
	}
	return since.Add(offerLatency)
}

// markAwaitingOffers marks the jobs for which offers of what is free may be under way: the agents have GPUs, or parts of
// shared ones, that no task of this framework holds and that it was not offered of late. After a failover, and after a time
// in which nothing waited, the scheduler does not know which GPUs are free. CPUs and memory may always be free.
func (s *State) markAwaitingOffers(waiting []queue.WaitingJob, running []queue.RunningTask) {
	if !s.Reclaims() {
		return
	}
	known, unseen := false, false
	for i := range waiting {
		w := &waiting[i]
		if !s.offersDue(w.Spec.Role, w.Submitted).After(s.now) {
			continue
		}
		if !known && w.Spec.Request.GPUs > 0 {
			known, unseen = true, s.hasUnseenGPUs(running)
		}
		w.AwaitsOffers = unseen || w.Spec.Request.GPUs == 0
	}
}

// hasUnseenGPUs reports whether an open agent may have free GPUs, or parts of shared ones, that are in no held offer and
// were in no recent one.
func (s *State) hasUnseenGPUs(running []queue.RunningTask) bool {
	if s.listedAgents == nil { // the first list is requested after a subscription
		return s.now.Before(s.subscribedAt.Add(offerLatency))
	}
	// left has the GPUs of agents, by id, and the memory of shared devices, by UUID, that are not known to be used or offered.
	left := make(map[string]int64, len(s.listedAgents))
	for id, a := range s.listedAgents {
		if s.isClosed(a.Hostname, id) {
			continue
		}
		left[id] = int64(a.GPUs)
		for _, d := range a.Shared {
			left[d.UUID] = d.MemMiB - s.held.memoryOf(d.UUID)
		}
	}
	for i := range running {
		r := &running[i]
		unshared, _ := gpu.ExcludeShared(r.Spec.Request.GPUs, nil, r.Shares)
		left[r.AgentID] -= int64(unshared)
	}
	offered := map[string]bool{}
	for _, h := range s.offers.offers {
		left[h.AgentID] -= int64(h.GPUs)
		for _, d := range h.Shared {
			left[d.UUID] -= d.MemMiB
		}
		offered[h.AgentID] = true
	}
	recent := map[string]int64{}
	for key := range s.lastOffered {
		if offered[key.ID] {
			continue
		}
		if last := s.leftover(key, s.now); last != nil {
			recent[key.ID] = max(recent[key.ID], int64(last.GPUs))
			for _, d := range last.Shared {
				recent[d.UUID] = max(recent[d.UUID], d.MemMiB)
			}
		}
	}
	for id, n := range left {
		if n > recent[id] {
			return true
		}
	}
	return false
}
