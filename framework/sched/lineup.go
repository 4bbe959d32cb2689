package sched

import (
	"slices"

	"mesos-gpu/job"
)

// Lineup names the jobs with tasks that wait, in the order in which they get
// places as these become free: what one would get counts for its role at once.
// Jobs that may not start yet come last.
func (s *State) Lineup() []string {
	q := s.readyQueue(s.now)
	l := newLedger(s.cfg.Policy.Roles, q.Running)
	l.agents = s.count(s.now).cluster.Agents()
	turn := newTurn(&q, &s.cfg.Policy, l)
	var names []string
	listed := map[string]bool{}
	for {
		j, ok := turn.next()
		if !ok {
			break
		}
		l.count(j.Spec.Role, "", len(j.Tasks)*l.weight(&j.Spec.Request, AllTypes))
		names, listed[j.Spec.Name] = append(names, j.Spec.Name), true
	}
	for _, name := range s.queue {
		if !listed[name] && slices.ContainsFunc(s.jobs[name].Tasks, func(t job.Task) bool { return t.State == job.Waiting }) {
			names = append(names, name)
		}
	}
	return names
}
