package sched

import (
	"fmt"
	"time"

	"mesos-gpu/job"
)

// countClients adds n to the number of clients that are connected to a job, and starts or stops its idle time.
func (s *State) countClients(name string, n int) {
	j, ok := s.jobs.Find(name)
	if ok {
		name = j.RunID().String()
	}
	if s.clients[name] += n; s.clients[name] <= 0 {
		delete(s.clients, name)
	}
	if !ok || j.Spec.IdleTimeout == 0 {
		return
	}
	for i := range j.Tasks {
		s.updateDeadlines(taskRef{j, i})
	}
}

// idleDeadline returns when a task has been without clients for its job's idle timeout; zero while it cannot be. It
// keeps the deadline before, which is zero if the task was not idle.
func (s *State) idleDeadline(ref taskRef, before time.Time) time.Time {
	t, idle := ref.get(), ref.job.Spec.IdleTimeout
	switch {
	case idle == 0 || t.Started.IsZero() || !t.KillRequested.IsZero() || s.clients[ref.job.RunID().String()] > 0:
		return time.Time{}
	case before.IsZero():
		return s.now.Add(idle)
	}
	return before
}

// endIdleTask requests the end of a task whose idle deadline is due. Clients of an earlier leader are unknown, so idle
// time counts from the subscription at the earliest.
func (s *State) endIdleTask(ref taskRef, d *taskDeadlines) []Operation {
	idle := ref.job.Spec.IdleTimeout
	if earliest := s.subscribedAt.Add(idle); d.idleAt.Before(earliest) {
		d.idleAt = earliest
	}
	d.idleAt = limitWait(d.idleAt, s.now, idle)
	if !isDue(d.idleAt, s.now) {
		return nil
	}
	return s.requestEnd(ref, job.KillByIdle, "", fmt.Sprintf("no client was connected for %s, the job's idle_timeout", idle))
}
