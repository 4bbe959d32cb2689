package queue

import (
	"cmp"
	"slices"
	"time"

	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// ClaimOrder yields the waiting tasks that are inside what their role deserves, before any task that would borrow: the
// role that holds the least of what it deserves first, within a role in the role's order.
type ClaimOrder struct {
	order *JobOrder
	usage *quota.Tracker
	roles []Role
	level int
	// next are the jobs that are about to start, by role.
	next map[string]job.RunID
	// rest are the tasks that are not claims, by the index of their job. Postpone adds to it.
	rest map[*WaitingJob]WaitingJob
	// last is the job of the last claim.
	last *WaitingJob
	// strictRest are the roles with a job in rest that all their later jobs follow: one of a strict role, or the one that is
	// next.
	strictRest map[string]bool
}

// NewClaimOrder returns the order of claims of one level: those inside what their roles deserve at level 0, then those
// inside what the roles above deserve. next are the jobs that are about to start, by role: a later job of the role must not
// claim their places, for instance those of tasks that were preempted for them. Usage is read at each call of Next.
func NewClaimOrder(now time.Time, waiting []WaitingJob, roles []Role, next map[string]job.RunID, usage *quota.Tracker, level int) *ClaimOrder {
	order := NewJobOrder(now, waiting, roles, usage)
	order.shareOf = usage.DeservedFraction
	return &ClaimOrder{order: order, level: level, next: next, usage: usage, roles: roles, rest: map[*WaitingJob]WaitingJob{}, strictRest: map[string]bool{}}
}

// Next returns the next job with the tasks that are inside what its role deserves, and the request restricted to the
// types of which that is true. It returns false after the last one.
func (o *ClaimOrder) Next() (*WaitingJob, gpu.Request, bool) {
	for j, ok := o.order.Next(); ok; j, ok = o.order.Next() {
		o.order.lastHeld = -1 // claims that wait change the shares too
		request, n := j.Spec.Request, 0
		if !o.strictRest[j.Spec.Role] && !j.Lowered {
			request, n = o.usage.RestrictToDeserved(j.Spec, o.level, len(j.Tasks))
		}
		o.last = j
		if n < len(j.Tasks) {
			o.Postpone(j.Tasks[n:])
		}
		if n > 0 {
			return j.WithTasks(n), request, true
		}
	}
	return nil, gpu.Request{}, false
}

// Postpone adds tasks of the last job to those that are not claims.
func (o *ClaimOrder) Postpone(tasks []WaitingTask) {
	rest, ok := o.rest[o.last]
	if !ok {
		rest = *o.last
		rest.Tasks = nil
	}
	rest.Tasks = slices.Concat(rest.Tasks, tasks)
	slices.SortFunc(rest.Tasks, func(a, b WaitingTask) int { return cmp.Compare(a.Index, b.Index) })
	o.rest[o.last] = rest
	role := o.last.Spec.Role
	isStrict := slices.ContainsFunc(o.roles, func(r Role) bool { return r.Name == role && r.Strict })
	if (isStrict || o.next[role] == o.last.RunID()) && !o.usage.IsBlockedByUser(o.last.Spec) {
		o.strictRest[role] = true
	}
}

// Rest returns the tasks that are not claims, by job, in the order of the waiting jobs.
func (o *ClaimOrder) Rest() []WaitingJob {
	var rest []WaitingJob
	for i := range o.order.jobs {
		if j, ok := o.rest[&o.order.jobs[i]]; ok {
			rest = append(rest, j)
		}
	}
	return rest
}
