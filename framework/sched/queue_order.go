package sched

import (
	"slices"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// QueueOrder returns the names of the jobs with waiting tasks in the order in which they get places. What a job would
// get counts for its role at once. Jobs that may not start yet come last.
func (s *State) QueueOrder() []string {
	in := s.newPlacementInput()
	usage := s.newUsage(in.Running)
	order := queue.NewJobOrder(in.Now, in.Waiting, s.cfg.Policy.Roles, usage)
	var names []string
	listed := map[string]bool{}
	for j, ok := order.Next(); ok; j, ok = order.Next() {
		usage.AddMilliGPUs(j.Spec.Role, "", len(j.Tasks)*usage.MilliPerTask(&j.Spec.Request, quota.AllTypes))
		names, listed[j.Spec.Name] = append(names, j.Spec.Name), true
	}
	for _, name := range s.queue {
		if !listed[name] && slices.ContainsFunc(s.jobs.Newest[name].Tasks, func(t job.Task) bool { return t.State == job.Waiting }) {
			names = append(names, name)
		}
	}
	return names
}
