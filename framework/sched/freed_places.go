package sched

import (
	"slices"
	"time"

	"mesos-gpu/job"
)

// freedPlace is a task that has ended and whose place Mesos has not offered
// again yet. Until then the place is on its way: nobody else need make room
// for the job that waits for it.
type freedPlace struct {
	RunningTask
	until time.Time
}

// freedPlaceTimeout is how long a freed place takes at most to be offered again:
// Mesos looks each second, and our own refusals last some.
const freedPlaceTimeout = 10 * time.Second

// recordFreedPlace remembers the place of a task that has just ended, as old tells it.
func (s *State) recordFreedPlace(now time.Time, j *job.Job, old *job.Task) {
	if old.State == job.Waiting {
		return
	}
	for role := range s.quotaBlockedRoles { // a quota may have room now
		s.offerDemandFor(role).reviveWanted = true
	}
	r := s.runningTask(now, j, old)
	r.Ending, r.Ends, r.Ended, r.Stuck = true, now, true, s.isClosed(old.Hostname, old.AgentID)
	s.freed = append(s.freed, freedPlace{r, now.Add(freedPlaceTimeout)})
}

// dropReturnedPlaces forgets the places on agents that have offered since.
func (s *State) dropReturnedPlaces(offers []Offer) {
	if len(s.freed) == 0 {
		return
	}
	back := map[agentKey]bool{}
	for i := range offers {
		back[agentKey{offers[i].AgentID, offers[i].Role}] = true
	}
	s.freed = slices.DeleteFunc(s.freed, func(l freedPlace) bool { return back[agentKey{l.AgentID, l.Spec.Role}] })
}

// freedPlaces lists the places that are on their way.
func (s *State) freedPlaces(now time.Time) []RunningTask {
	s.freed = slices.DeleteFunc(s.freed, func(l freedPlace) bool { return !l.until.After(now) })
	list := make([]RunningTask, len(s.freed))
	for i := range s.freed {
		list[i] = s.freed[i].RunningTask
	}
	return list
}
