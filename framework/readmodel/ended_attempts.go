package readmodel

import (
	"cmp"

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

// EndedTask is an attempt of a task that has ended.
type EndedTask struct {
	Task job.Task
	// HasLaterAttempt is set if another attempt of the task has followed.
	HasLaterAttempt bool
	// Paths are the job's artifacts.
	Paths []string
	// Owner is the job's owner, or its role if it has none.
	Owner string
}

// FindEndedTask returns an attempt of a recorded job; false if it is not recorded or has not ended.
func (m *Model) FindEndedTask(id string) (EndedTask, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t, present := m.tasks[id]
	if !present {
		earlier, ok := m.attempts.tasks[id]
		if !ok {
			return EndedTask{}, false
		}
		t = &earlier
	}
	e, ok := m.jobs.FindRun(t.RunID())
	if !ok || t.State.IsLive() {
		return EndedTask{}, false
	}
	return newEndedTask(e, t, !present), true
}

// VisitEndedTasks calls visit with all attempts that have ended. It must not call the model, whose changes wait meanwhile, and
// must not keep its argument.
func (m *Model) VisitEndedTasks(visit func(*EndedTask)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for id := range m.attempts.tasks {
		t := m.attempts.tasks[id]
		if e, ok := m.jobs.FindRun(t.RunID()); ok && !t.State.IsLive() {
			ended := newEndedTask(e, &t, true)
			visit(&ended)
		}
	}
	for _, e := range m.bySubmission {
		for i := range e.Tasks {
			if t := &e.Tasks[i]; !e.removed && t.ID != "" && !t.State.IsLive() {
				ended := newEndedTask(e, t, false)
				visit(&ended)
			}
		}
	}
}

func newEndedTask(e *jobEntry, t *job.Task, hasLaterAttempt bool) EndedTask {
	return EndedTask{Task: *t, HasLaterAttempt: hasLaterAttempt, Paths: e.Spec.Artifacts, Owner: cmp.Or(e.Spec.Owner, "role "+e.Spec.Role)}
}
