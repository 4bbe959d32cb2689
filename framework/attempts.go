package framework

import (
	"slices"

	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// shownAttempts bounds the earlier attempts that are shown with their job.
const shownAttempts = sched.KeptAttempts

// attempts are the ended ones that the journal remembers.
type attempts struct {
	tasks map[string]job.Task
	byJob map[string][]string // their ids, in no order
}

// keep takes in what the journal says of an attempt: a zero one is forgotten.
// It reports whether it has ended otherwise than was known.
func (a *attempts) keep(id string, t job.Task) (other bool) {
	before, again := a.tasks[id]
	switch {
	case t.ID == "" && again:
		delete(a.tasks, id)
		a.byJob[before.Job] = slices.DeleteFunc(a.byJob[before.Job], func(one string) bool { return one == id })
		if len(a.byJob[before.Job]) == 0 {
			delete(a.byJob, before.Job)
		}
		return false
	case t.ID == "":
		return false
	case a.tasks == nil:
		a.tasks, a.byJob = map[string]job.Task{}, map[string][]string{}
	}
	if !again {
		a.byJob[t.Job] = append(a.byJob[t.Job], id)
	}
	a.tasks[id] = t
	return again && before.State != t.State
}

// of are a job's last ones, oldest first.
func (a *attempts) of(name string) []job.Task {
	list := make([]job.Task, 0, len(a.byJob[name]))
	for _, id := range a.byJob[name] {
		list = append(list, a.tasks[id])
	}
	slices.SortFunc(list, sched.EarlierAttempt)
	return list[max(0, len(list)-shownAttempts):]
}
