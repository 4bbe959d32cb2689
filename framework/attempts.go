package framework

import (
	"slices"
	"time"

	"mesos-gpu/job"
)

// keptAttempts bounds those that are remembered, shownAttempts those that are
// shown with their job: a service that fails for days has thousands.
const keptAttempts, shownAttempts = 10_000, 100

// attempts are the last ones in whose place others were started: what they
// wrote is on their agents still, and says why they ended.
type attempts struct {
	tasks map[string]job.Task
	ids   []string // oldest first
}

// add remembers an attempt that got as far as an agent. It has ended, though
// what is known of it may be from before.
func (a *attempts) add(t job.Task) {
	if t.AgentURL == "" {
		return
	}
	if a.tasks == nil {
		a.tasks = map[string]job.Task{}
	}
	if t.State.Live() {
		t.State = job.Lost
	}
	if _, twice := a.tasks[t.ID]; !twice {
		a.ids = append(a.ids, t.ID)
	}
	a.tasks[t.ID] = t
	if len(a.ids) > keptAttempts {
		delete(a.tasks, a.ids[0])
		a.ids = a.ids[1:]
	}
}

// learn takes in how an attempt that is remembered has ended.
func (a *attempts) learn(t job.Task) {
	if _, kept := a.tasks[t.ID]; kept {
		a.tasks[t.ID] = t
	}
}

// of are a job's last ones, oldest first: those since it was submitted, as
// another may have had its name.
func (a *attempts) of(name string, since time.Time) (list []job.Task) {
	for _, id := range slices.Backward(a.ids) {
		if t := a.tasks[id]; t.Job == name && !t.Changed.Before(since) {
			list = append(list, t)
		}
		if len(list) == shownAttempts {
			break
		}
	}
	slices.Reverse(list)
	return list
}
