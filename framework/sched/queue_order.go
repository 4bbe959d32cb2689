package sched

import (
	"slices"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// QueueOrder returns the jobs with waiting tasks in the order in which they get places. What a job would
// get counts for its role at once. Jobs that may not start yet come last.
func (s *State) QueueOrder() []job.RunID {
	in := s.newPlacementInput()
	usage := s.newUsage(in.Running, in.Waiting)
	var runs []job.RunID
	listed := map[job.RunID]bool{}
	add := func(run job.RunID) {
		if !listed[run] {
			runs, listed[run] = append(runs, run), true
		}
	}
	waiting := in.Waiting
	if usage.Reclaims() { // what roles deserve is placed before what they would borrow
		for level := range usage.DeservedLevels() {
			claims := queue.NewClaimOrder(in.Now, waiting, s.cfg.Policy.Roles, placement.NextJobs(in.Reservations), usage, level)
			for j, request, ok := claims.Next(); ok; j, request, ok = claims.Next() {
				usage.AddClaim(j.Spec, &request, len(j.Tasks))
				add(j.RunID())
			}
			waiting = claims.Rest()
		}
	}
	order := queue.NewJobOrder(in.Now, waiting, s.cfg.Policy.Roles, usage)
	for j, ok := order.Next(); ok; j, ok = order.Next() {
		milli := len(j.Tasks) * usage.MilliPerTask(&j.Spec.Request, quota.AllTypes)
		usage.AddMilliGPUs(j.Spec.Role, "", milli)
		usage.AddUserMilliGPUs(j.Spec, "", milli)
		add(j.RunID())
	}
	for j := range s.queue.all() {
		if slices.ContainsFunc(j.Tasks, func(t job.Task) bool { return t.State == job.Waiting }) {
			add(j.RunID())
		}
	}
	return runs
}
