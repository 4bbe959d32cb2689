package readmodel

import (
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// EndedAttempts returns the ends of attempts that a change has recorded. The model must contain the change. It may return
// an end again that an earlier change had.
func (m *Model) EndedAttempts(c journal.Change) (list []sched.AttemptEnd) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for i := range c.Tasks {
		list = m.appendEnd(list, &c.Tasks[i])
	}
	for key, value := range c.Documents {
		if _, t, ok := sched.ParseAttempt(key, value); ok {
			list = m.appendEnd(list, &t)
		}
		if e, ok := sched.ParseAttemptEnd(key, value); ok {
			list = append(list, e)
		}
	}
	return list
}

// AllEndedAttempts returns the ends of all attempts that the model contains.
func (m *Model) AllEndedAttempts() (list []sched.AttemptEnd) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, t := range m.tasks {
		list = m.appendEnd(list, t)
	}
	for _, t := range m.attempts.tasks {
		list = m.appendEnd(list, &t)
	}
	for key, value := range m.ownDocuments {
		if e, ok := sched.ParseAttemptEnd(key, value); ok {
			list = append(list, e)
		}
	}
	return list
}

// appendEnd appends the end of a task, if it has ended in this run of its job and the job is known.
func (m *Model) appendEnd(list []sched.AttemptEnd, t *job.Task) []sched.AttemptEnd {
	if t.ID == "" || t.State.IsLive() || t.FinishedAs != "" {
		return list
	}
	e, ok := m.jobs.FindRun(t.RunID())
	if !ok {
		return list
	}
	return append(list, sched.NewAttemptEnd(t, e.SpecOf(t), e.Submitted))
}
