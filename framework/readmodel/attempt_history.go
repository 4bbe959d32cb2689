package readmodel

import (
	"iter"
	"maps"
	"slices"

	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// shownAttempts limits how many earlier attempts the API shows with a job.
const shownAttempts = sched.MaxAttemptsPerJob

// attemptHistory holds the ended attempts that the journal stores, by task id.
type attemptHistory struct {
	// tasks are the attempts by id, as recorded. They change if an attempt that was lost reports its end.
	tasks map[string]job.Task
	byJob map[string]map[string]bool // task ids by job
}

// applyRecord applies the journal's record of an attempt; a zero task deletes the attempt.
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

// EarlierAttempts iterates over the stored attempts that were followed by another one.
func (v *Model) EarlierAttempts() iter.Seq[job.Task] {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return maps.Values(maps.Clone(v.attempts.tasks))
}

// latestAttempts returns a job's latest attempts, oldest first.
func (a *attemptHistory) latestAttempts(name string) []job.Task {
	list := make([]job.Task, 0, len(a.byJob[name]))
	for id := range a.byJob[name] {
		list = append(list, a.tasks[id])
	}
	slices.SortFunc(list, sched.CompareAttempts)
	return list[max(0, len(list)-shownAttempts):]
}
