package readmodel

import (
	"slices"

	"mesos-gpu/job"
)

// indexTasks makes the index of tasks point to those of an entry. Tasks that are not recorded yet have no ID.
func (m *Model) indexTasks(e *jobEntry) {
	for i := range e.Tasks {
		if t := &e.Tasks[i]; t.ID != "" {
			m.tasks[t.ID] = t
		}
	}
}

// shareTasks lets the entry of a job share the tasks of the State, which copies them before it changes one.
func (m *Model) shareTasks(j *job.Job) {
	if e, ok := m.jobs.FindRun(j.RunID()); ok {
		e.Tasks, e.sharesTasks = j.Tasks, true
		m.indexTasks(e)
	}
}

// unshareTasks gives an entry tasks of its own, before they change.
func (m *Model) unshareTasks(e *jobEntry) {
	if e.sharesTasks {
		e.Tasks, e.sharesTasks = slices.Clone(e.Tasks), false
		m.indexTasks(e)
	}
}
