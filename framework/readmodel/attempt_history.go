package readmodel

import (
	"slices"

	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// shownAttempts bounds the earlier attempts that are shown with their job.
const shownAttempts = sched.MaxAttemptsPerJob

// attemptHistory are the ended ones that the journal remembers.
type attemptHistory struct {
	tasks map[string]job.Task
	byJob map[string]map[string]bool // their ids
}

// applyRecord takes in what the journal says of an attempt: a zero one is forgotten.
func (a *attemptHistory) applyRecord(id string, t job.Task) {
	if t.ID == "" {
		name := a.tasks[id].Job
		delete(a.tasks, id)
		delete(a.byJob[name], id)
		if len(a.byJob[name]) == 0 {
			delete(a.byJob, name)
		}
		return
	}
	if a.tasks == nil {
		a.tasks, a.byJob = map[string]job.Task{}, map[string]map[string]bool{}
	}
	if a.byJob[t.Job] == nil {
		a.byJob[t.Job] = map[string]bool{}
	}
	a.byJob[t.Job][id], a.tasks[id] = true, t
}

// latestAttempts are a job's last ones, oldest first.
func (a *attemptHistory) latestAttempts(name string) []job.Task {
	list := make([]job.Task, 0, len(a.byJob[name]))
	for id := range a.byJob[name] {
		list = append(list, a.tasks[id])
	}
	slices.SortFunc(list, sched.CompareAttempts)
	return list[max(0, len(list)-shownAttempts):]
}
