package sched

import (
	"slices"
	"time"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
)

// freedPlaces are the places of tasks that have ended, until Mesos offers them again. Plans treat them as about to be
// free, so that no task is preempted for a job that will start there.
type freedPlaces []freedPlace

type freedPlace struct {
	queue.RunningTask
	// until is when the place is forgotten even if no offer has arrived.
	until time.Time
}

// freedPlaceTimeout is how long Mesos takes at most to offer a freed place: it allocates each second, and the
// scheduler's own refusals last some seconds.
const freedPlaceTimeout = 10 * time.Second

// dropOffered forgets the places on agents that have offered to their role since, or to any role if places of all roles
// are reclaimed.
func (f *freedPlaces) dropOffered(offers []Offer, anyRole bool) {
	if len(*f) == 0 {
		return
	}
	offered := map[placement.AgentKey]bool{}
	key := func(agent, role string) placement.AgentKey {
		if anyRole {
			role = ""
		}
		return placement.AgentKey{ID: agent, Role: role}
	}
	for i := range offers {
		offered[key(offers[i].AgentID, offers[i].Role)] = true
	}
	*f = slices.DeleteFunc(*f, func(p freedPlace) bool { return offered[key(p.AgentID, p.Spec.Role)] })
}

// appendTo appends the places that Mesos has not offered yet to a list.
func (f *freedPlaces) appendTo(list []queue.RunningTask, now time.Time) []queue.RunningTask {
	*f = slices.DeleteFunc(*f, func(p freedPlace) bool { return !p.until.After(now) })
	for i := range *f {
		list = append(list, (*f)[i].RunningTask)
	}
	return list
}
