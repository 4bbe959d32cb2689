package sched

import (
	"slices"

	"mesos-gpu/job"
)

// QueueOrder names the jobs with tasks that wait, in the order in which they get
// places as these become free: what one would get counts for its role at once.
// Jobs that may not start yet come last.
func (s *State) QueueOrder() []string {
	q := s.newPlacementQueue(s.now)
	l := newQuotaTracker(s.cfg.Policy.Roles, q.Running)
	l.agents = s.explanationCacheFor(s.now).cluster.Agents()
	turn := newJobOrder(&q, &s.cfg.Policy, l)
	var names []string
	listed := map[string]bool{}
	for {
		j, ok := turn.nextJob()
		if !ok {
			break
		}
		l.addMilliGPUs(j.Spec.Role, "", len(j.Tasks)*l.milliGPUsPerTask(&j.Spec.Request, AllTypes))
		names, listed[j.Spec.Name] = append(names, j.Spec.Name), true
	}
	for _, name := range s.queue {
		if !listed[name] && slices.ContainsFunc(s.jobs[name].Tasks, func(t job.Task) bool { return t.State == job.Waiting }) {
			names = append(names, name)
		}
	}
	return names
}
