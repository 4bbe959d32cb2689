package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
)

// explainBlocked returns why nothing ends for a claim: a role above it that has no room for it, what keeps the tasks that hold
// more than their roles' parts, or that there are none.
func (r *reclaimer) explainBlocked(j *queue.WaitingJob) string {
	if wait := j.Spec.PreemptAfter; wait > 0 && r.in.Now.Before(j.Submitted.Add(wait)) {
		return fmt.Sprintf("; nothing ends for it before its preempt_after of %s has passed", wait)
	}
	withGPUs := j.Spec.Request.GPUs > 0
	var young, guaranteed, stuck, others int
	var earliest time.Duration
	for i := range r.in.Running {
		t := &r.in.Running[i]
		if t.Ending || withGPUs && t.Spec.Request.GPUs == 0 || !r.alloc.Usage.MayTake(j.Spec.Role, withGPUs, t.Holding(), false) {
			continue
		}
		switch left := t.Since.Add(t.Spec.MinRunTime).Sub(r.in.Now); {
		case t.Spec.Guaranteed:
			guaranteed++
		case t.Stuck:
			stuck++
		case left > 0:
			if young++; earliest == 0 || left < earliest {
				earliest = left
			}
		default:
			others++
		}
	}
	var parts []string
	usage := r.alloc.Usage
	usage.AddClaim(j.Spec, &j.Spec.Request, 1)
	if above := usage.RoleBeyondDeserved(j.Spec, &j.Spec.Request, r.level); above != "" {
		parts = append(parts, fmt.Sprintf("with it, role %s would hold more than it %s", above, r.verb()))
	}
	usage.AddClaim(j.Spec, &j.Spec.Request, -1)
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s of roles that hold more than their part %s", n, gpu.Plural(n, "task"), what))
		}
	}
	add(young, fmt.Sprintf("may not end before the min_run_time, the first in %s", earliest.Round(time.Second)))
	add(guaranteed, "may not end: guaranteed")
	add(stuck, "cannot be ended now")
	add(others, "would not make room for it")
	if len(parts) == 0 {
		return "; no other role holds more than its part"
	}
	return "; nothing ends for it: " + strings.Join(parts, ", ")
}

// limitBorrowing returns how many of n tasks of a job may start while claims wait for tasks that end, and the
// cause why others wait: a role that takes back what it deserves does not borrow at the same time, because the tasks would
// have ended for nothing.
func (r *reclaimer) limitBorrowing(j *queue.WaitingJob, n int) (int, PendingCause) {
	var cause PendingCause
	for _, role := range slices.Sorted(maps.Keys(r.awaiting)) {
		if allowed := r.alloc.Usage.TasksAllowedByClaims(j.Spec, role, n); allowed < n {
			n, cause = allowed, PendingCause{
				BlockedBy: BlockedByReclaim, Needs: "what role " + j.Spec.Role + " deserves",
				Available: fmt.Sprintf("tasks end for %s of role %s, which does not borrow until then", r.awaiting[role].Name, role),
			}
		}
	}
	return n, cause
}

// countEndings counts the tasks that end on the agents of a claim's places, by role, and returns when the last of them has
// ended.
func (r *reclaimer) countEndings(j *queue.WaitingJob, places []fit.Placement) (tasks map[string]int, ends time.Time) {
	tasks, ends = map[string]int{}, r.in.Now
	pool, visited := r.pool.Agents(), map[int]bool{}
	for i := range places {
		at := places[i].Agent
		if visited[at] {
			continue
		}
		visited[at] = true
		for _, t := range r.endings[pool[at].ID] {
			if t.Ended || t.Spec.Request.GPUs == 0 && t.Spec.Role == j.Spec.Role {
				continue
			}
			tasks[t.Spec.Role]++
			if t.Ends.After(ends) {
				ends = t.Ends
			}
		}
	}
	return tasks, ends
}

// explainClaim returns why n tasks of a claim wait for GPUs that are reserved for it. tasks and ends are those of countEndings.
func (r *reclaimer) explainClaim(j *queue.WaitingJob, n int, tasks map[string]int, ends time.Time) PendingCause {
	usage := r.alloc.Usage
	c := PendingCause{BlockedBy: BlockedByReclaim}
	free, borrowedBy := "GPUs are", func(role string) string {
		if borrowed := usage.BorrowedOf(role); borrowed > 0 {
			return quota.FormatGPUCount(borrowed)
		}
		return ""
	}
	if j.Spec.Request.GPUs > 0 {
		gpus := quota.FormatGPUCount(n * usage.MilliPerTask(&j.Spec.Request, quota.AllTypes))
		c.Needs, c.Available = fmt.Sprintf("%s that role %s %s", gpus, j.Spec.Role, r.verb()), usage.DescribeDeserved(j.Spec.Role)
	} else {
		c.Needs = fmt.Sprintf("%s that role %s deserves", usage.DescribeHost(j.Spec, n), j.Spec.Role)
		c.Available = usage.DescribeDeservedHost(j.Spec.Role)
		free, borrowedBy = "CPUs and memory are", usage.BorrowedHost
	}
	if len(tasks) == 0 {
		c.Available += "; free " + free + " reserved for it until Mesos offers them"
		return c
	}
	sum := 0
	for _, role := range slices.Sorted(maps.Keys(tasks)) {
		ending := tasks[role]
		sum += ending
		c.Available += fmt.Sprintf("; %d %s of role %s", ending, gpu.Plural(ending, "task"), role)
		if borrowed := borrowedBy(role); borrowed != "" {
			c.Available += fmt.Sprintf(", which borrows %s,", borrowed)
		}
	}
	verb := "end"
	if sum == 1 {
		verb = "ends"
	}
	c.Available += fmt.Sprintf(" %s within %s", verb, ends.Sub(r.in.Now).Round(time.Second))
	return c
}
