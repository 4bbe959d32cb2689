package sched

import (
	"slices"
	"time"

	"mesos-gpu/job"
)

// leaving is a task that has ended and whose place Mesos has not offered
// again yet. Until then the place is on its way: nobody else need make room
// for the job that waits for it.
type leaving struct {
	Running
	until time.Time
}

// comesBack is how long a freed place takes at most to be offered again:
// Mesos looks each second, and our own refusals last some.
const comesBack = 10 * time.Second

// leave remembers the place of a task that has just ended, as old tells it.
func (s *State) leave(now time.Time, j *job.Job, old *job.Task) {
	if old.State == job.Waiting {
		return
	}
	for role := range s.bound { // a quota may have room now
		s.demandOf(role).wanted = true
	}
	r := s.running(now, j, old)
	r.Ending, r.Ends, r.Left, r.Stuck = true, now, true, s.shut(old.Hostname, old.AgentID)
	s.leaving = append(s.leaving, leaving{r, now.Add(comesBack)})
}

// returned forgets the places on agents that have offered since.
func (s *State) returned(offers []Offer) {
	if len(s.leaving) == 0 {
		return
	}
	back := map[agentKey]bool{}
	for i := range offers {
		back[agentKey{offers[i].AgentID, offers[i].Role}] = true
	}
	s.leaving = slices.DeleteFunc(s.leaving, func(l leaving) bool { return back[agentKey{l.AgentID, l.Spec.Role}] })
}

// gone lists the places that are on their way.
func (s *State) gone(now time.Time) []Running {
	s.leaving = slices.DeleteFunc(s.leaving, func(l leaving) bool { return !l.until.After(now) })
	list := make([]Running, len(s.leaving))
	for i := range s.leaving {
		list[i] = s.leaving[i].Running
	}
	return list
}
