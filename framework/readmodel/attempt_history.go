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
	// byJob are the ids of the same attempts by run. A run without attempts has no entry.
	byJob map[job.RunID]map[string]bool
}

// applyRecord applies the journal's record of an attempt; a zero task deletes the attempt.
func (a *attemptHistory) applyRecord(id string, t job.Task) {
	if t.ID == "" {
		old := a.tasks[id]
		run := old.RunID()
		delete(a.tasks, id)
		delete(a.byJob[run], id)
		if len(a.byJob[run]) == 0 {
			delete(a.byJob, run)
		}
		return
	}
	if a.tasks == nil {
		a.tasks, a.byJob = map[string]job.Task{}, map[job.RunID]map[string]bool{}
	}
	if a.byJob[t.RunID()] == nil {
		a.byJob[t.RunID()] = map[string]bool{}
	}
	a.byJob[t.RunID()][id], a.tasks[id] = true, t
}

// EarlierAttempts iterates over the stored attempts that were followed by another one, as of the call. Equal attempts
// come in equal order: sums of their times are rounded alike.
func (m *Model) EarlierAttempts() iter.Seq[job.Task] {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := make([]job.Task, 0, len(m.attempts.tasks))
	for _, id := range slices.Sorted(maps.Keys(m.attempts.tasks)) {
		list = append(list, m.attempts.tasks[id])
	}
	return slices.Values(list)
}

// latestAttempts returns a run's latest attempts, oldest first.
func (a *attemptHistory) latestAttempts(run job.RunID) []job.Task {
	list := make([]job.Task, 0, len(a.byJob[run]))
	for id := range a.byJob[run] {
		list = append(list, a.tasks[id])
	}
	slices.SortFunc(list, sched.CompareAttempts)
	return list[max(0, len(list)-shownAttempts):]
}
