package sched

import (
	"fmt"

	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// waitingJobs returns "N waiting jobs". The limits count as waiting jobs those that have not ended and have no placed task.
func waitingJobs(n int) string { return gpu.Plural(n, "waiting job") }

// admitWaitingJob returns an error if one more job may not wait in a role: for the limits of the roles file on the role, on
// the roles above it, and on the owner. moved is a job of another role that moves to this one, nil for a new job.
func (s *State) admitWaitingJob(k jobOwner, moved *job.Job) error {
	for i := range s.cfg.Policy.Roles {
		r := &s.cfg.Policy.Roles[i]
		if !quota.IsWithinRole(k.role, r.Name) || moved != nil && quota.IsWithinRole(moved.Spec.Role, r.Name) {
			continue
		}
		if r.WaitingJobs > 0 {
			if n := s.countWaitingJobs(r.Name, ""); n >= r.WaitingJobs {
				return &LimitError{Holder: fmt.Sprintf("role %q", r.Name), Noun: waitingJobs(n), Used: n, Requested: 1, Limit: r.WaitingJobs, CountsWaitingJobs: true}
			}
		}
		limit := r.UserLimits(k.owner).WaitingJobs
		if k.owner == "" || limit == 0 {
			continue
		}
		if n := s.countWaitingJobs(r.Name, k.owner); n >= limit {
			return &LimitError{
				Holder:            fmt.Sprintf("user %s in role %q", k.owner, r.Name),
				Noun:              waitingJobs(n),
				Used:              n,
				Requested:         1,
				Limit:             limit,
				CountsWaitingJobs: true,
				User:              k.owner,
			}
		}
	}
	return nil
}

// countWaitingJobs returns how many jobs without a placed task a role and the roles below it have, of one owner or, with "",
// of all.
func (s *State) countWaitingJobs(role, owner string) (n int) {
	for k, live := range s.liveJobs.byOwner {
		if quota.IsWithinRole(k.role, role) && (owner == "" || k.owner == owner) {
			n += *live
		}
	}
	for j := range s.placed.jobs.all() {
		if quota.IsWithinRole(j.Spec.Role, role) && (owner == "" || j.Spec.Owner == owner) {
			n--
		}
	}
	return n
}
