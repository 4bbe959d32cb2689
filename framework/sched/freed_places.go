package sched

import (
	"slices"
	"time"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// freedPlace is the place of a task that has ended, until Mesos offers it again. Plans treat it as about to be free, so
// that no task is preempted for a job that will start there.
type freedPlace struct {
	queue.RunningTask
	until time.Time
}

// freedPlaceTimeout is how long Mesos takes at most to offer a freed place: it allocates each second, and the
// scheduler's own refusals last some seconds.
const freedPlaceTimeout = 10 * time.Second

// recordFreedPlace remembers the place of a task that has ended. old is the task before its end.
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

// dropReturnedPlaces forgets the freed places on agents that have offered since.
func (s *State) dropReturnedPlaces(offers []Offer) {
	if len(s.freed) == 0 {
		return
	}
	offered := map[placement.AgentKey]bool{}
	for i := range offers {
		offered[placement.AgentKey{ID: offers[i].AgentID, Role: offers[i].Role}] = true
	}
	s.freed = slices.DeleteFunc(s.freed, func(f freedPlace) bool { return offered[placement.AgentKey{ID: f.AgentID, Role: f.Spec.Role}] })
}

// freedPlaces returns the freed places that Mesos has not offered yet.
func (s *State) freedPlaces(now time.Time) []queue.RunningTask {
	s.freed = slices.DeleteFunc(s.freed, func(f freedPlace) bool { return !f.until.After(now) })
	list := make([]queue.RunningTask, len(s.freed))
	for i := range s.freed {
		list[i] = s.freed[i].RunningTask
	}
	return list
}
