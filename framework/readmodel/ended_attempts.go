package readmodel

import (
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// EndedAttempts returns the ends of attempts that a change has recorded. The model must contain the change. It may return
// an end again that an earlier change had.
func (v *Model) EndedAttempts(c journal.Change) (list []sched.AttemptEnd) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for i := range c.Tasks {
		list = v.appendEnd(list, &c.Tasks[i])
	}
	for key, value := range c.Documents {
		if _, t, ok := sched.ParseAttempt(key, value); ok {
			list = v.appendEnd(list, &t)
		}
		if e, ok := sched.ParseAttemptEnd(key, value); ok {
			list = append(list, e)
		}
	}
	return list
}

// AllEndedAttempts returns the ends of all attempts that the model contains.
func (v *Model) AllEndedAttempts() (list []sched.AttemptEnd) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, t := range v.tasks {
		list = v.appendEnd(list, t)
	}
	for _, t := range v.attempts.tasks {
		list = v.appendEnd(list, &t)
	}
	for key, value := range v.ownDocuments {
		if e, ok := sched.ParseAttemptEnd(key, value); ok {
			list = append(list, e)
		}
	}
	return list
}

// appendEnd appends the end of a task, if it has ended in this run of its job and the job is known.
func (v *Model) appendEnd(list []sched.AttemptEnd, t *job.Task) []sched.AttemptEnd {
	if t.ID == "" || t.State.IsLive() || t.FinishedAs != "" {
		return list
	}
	e, ok := v.jobs.Find(t.RunID().String())
	if !ok {
		return list
	}
	return append(list, sched.NewAttemptEnd(t, e.SpecOf(t), e.Submitted))
}
