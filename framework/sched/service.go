package sched

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/job"
)

// steady is how long an attempt of a service's task must have run, at least,
// for the failures before it to be forgotten: Marathon's minimum for a viable
// task.
const steady = time.Minute

// serve starts a service's task again, after a pause where it is at fault.
func (s *State) serve(now time.Time, ref taskRef, next job.Task, old *job.Task, o outcome) (job.Task, bool) {
	attempt := next.Attempt - 1
	b := ref.job.Spec.Service.Backoff
	if !old.Started.IsZero() && now.Sub(old.Started) > max(steady, b.Pause(old.Failures)) {
		next.Failures = 0
	}
	switch {
	case !old.KillWanted.IsZero():
		next.Message = fmt.Sprintf("attempt %d was stopped: %s", attempt, cmp.Or(old.Message, o.message, o.reason))
		return next, true
	case o.drained:
		next.Message = fmt.Sprintf("attempt %d was stopped: its agent is drained", attempt)
		return next, true
	case o.unfit != "":
		if again, ok := s.misfit(next, old, o); ok {
			return again, true
		}
	}
	next.Failures++
	next.NotBefore = now.Add(b.Pause(next.Failures))
	next.Message = fmt.Sprintf("attempt %d has %s and is started again", attempt, o.state)
	if said := cmp.Or(o.message, o.reason); said != "" {
		next.Message += ": " + said
	}
	return next, true
}

// AdmitScale says what is in the way of a service's having so many tasks; nil
// where nothing is.
func (s *State) AdmitScale(name string, tasks int) error {
	j, ok := s.jobs[name]
	switch {
	case !ok:
		return fmt.Errorf("there is no job %q", name)
	case j.Spec.Service == nil:
		return fmt.Errorf("job %q is no service, its number of tasks is fixed: submit another job", name)
	case j.Terminal():
		return fmt.Errorf("service %q has ended: submit it again", name)
	case ending(j):
		return fmt.Errorf("service %q is being killed: submit it again once it has ended", name)
	case tasks < 0 || tasks > job.MaxTasks:
		return fmt.Errorf("tasks: %d is not between 0 and %d", tasks, job.MaxTasks)
	}
	if more := tasks - j.Wanted(); more > 0 && s.live+more > s.cfg.MaxLive {
		return &FullError{Live: s.live, More: more, Most: s.cfg.MaxLive}
	}
	return nil
}

// ending reports whether somebody has asked for the job's end.
func ending(j *job.Job) bool {
	return slices.ContainsFunc(j.Tasks, func(t job.Task) bool {
		return t.State.Live() && !t.KillWanted.IsZero() && t.KillReason == job.ByPerson
	})
}

// scale brings a service to so many tasks.
func (s *State) scale(now time.Time, e Scale) []Op {
	if s.AdmitScale(e.Job, e.Tasks) != nil {
		return nil
	}
	j := s.jobs[e.Job]
	more := e.Tasks - j.Wanted()
	if more < 0 {
		return s.stop(now, Stop{TaskIDs: s.dispensable(j, -more), Retire: true})
	}
	for i := 0; i < len(j.Tasks) && more > 0; i++ {
		if s.recall(now, taskRef{j, i}) {
			more--
		}
	}
	if more > 0 {
		s.grow(now, j, more)
	}
	return nil
}

// recall wants a task again that a service had too many of.
func (s *State) recall(now time.Time, ref taskRef) bool {
	t := ref.task()
	if t.KillReason != job.ByScale {
		return false
	}
	if t.State.Live() {
		t.KillReason = job.ByReplacement // comes back once it has ended
		s.touch(ref)
		return true
	}
	delete(s.tasks, t.ID)
	s.enqueue(now, ref, job.Task{Attempt: t.Attempt + 1, Ran: t.Ran, Unfit: t.Unfit})
	return true
}

// grow adds tasks to a job.
func (s *State) grow(now time.Time, j *job.Job, more int) {
	s.workload.add(&j.Spec, &s.cfg.Policy, -1)
	first := len(j.Tasks)
	j.Spec.Tasks += more
	j.Tasks = append(j.Tasks, make([]job.Task, more)...)
	s.workload.add(&j.Spec, &s.cfg.Policy, 1)
	s.recordJob(j)
	for i := first; i < len(j.Tasks); i++ {
		s.enqueue(now, taskRef{j, i}, job.Task{Attempt: 1})
	}
}

// serves ranks a task by how soon it is of use.
func serves(t *job.Task) int {
	switch {
	case t.State == job.Waiting:
		return 0
	case !t.KillWanted.IsZero():
		return 1
	case t.State == job.Unreachable:
		return 2
	case t.State != job.Running:
		return 3
	case t.Healthy != nil && !*t.Healthy:
		return 4
	default:
		return 5
	}
}

// stop ends single tasks: for good, or, of a service that has no fewer for it,
// to start others in their places.
func (s *State) stop(now time.Time, e Stop) []Op {
	var ops []Op
	for _, id := range e.TaskIDs {
		ref, ok := s.tasks[id]
		if !ok || !ref.task().State.Live() {
			continue
		}
		why, message := job.ByPerson, "stopped"
		switch {
		case ref.job.Spec.Service != nil && e.Retire:
			why, message = job.ByScale, "its service wants fewer tasks"
		case ref.job.Spec.Service != nil:
			why, message = job.ByReplacement, "to be replaced"
		}
		ops = append(ops, s.stopTask(now, ref, why, message)...)
		s.settle(ref.job)
	}
	return ops
}

// wake ends the pauses of tasks that wait.
func (s *State) wake(now time.Time, e Wake) {
	for _, id := range e.TaskIDs {
		ref, ok := s.tasks[id]
		if !ok || ref.task().State != job.Waiting {
			continue
		}
		t := ref.task()
		t.Failures = 0
		if t.NotBefore.After(now) {
			t.NotBefore = s.pool.woken // the pause is over, and was no waiting for a place
		}
		s.touch(ref)
		s.demand(ref)
	}
}

func (s *State) stopTask(now time.Time, ref taskRef, why job.KillReason, message string) []Op {
	t := ref.task()
	switch {
	case t.State == job.Waiting && why == job.ByReplacement:
		return nil // nothing of it runs
	case t.State == job.Waiting:
		old := *t
		t.KillWanted, t.KillReason = now, why
		s.move(now, ref, job.Killed, message)
		if ref.job.Spec.Gang {
			return s.gangEnded(now, ref, &old, false)
		}
		return nil
	case t.KillReason.Requeues() && why != job.ByReplacement:
		t.KillReason = why // and does not come back
		s.touch(ref)
		return nil
	default:
		return s.end(now, ref, why, message)
	}
}
