package master

import (
	"cmp"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/minimesos/events"
)

// masterTask is a task known to the master, in the form of the operator API.
// Its fields are replaced, never modified: events may share them.
type masterTask struct {
	mesos.Task
	// acknowledged is the uuid of the last status that the framework has
	// acknowledged.
	acknowledged []byte
}

func newTask(f *frameworkState, t mesos.TaskInfo, state mesos.TaskState) *masterTask {
	out := &masterTask{Task: events.NewTask(t, *f.info.ID, nil, state)}
	if t.Executor != nil {
		out.ExecutorID = &t.Executor.ExecutorID
	}
	out.User = new(cmp.Or(t.GetCommand().GetUser(), t.GetExecutor().GetCommand().GetUser(), f.info.User))
	return out
}

func (t *masterTask) id() string { return t.TaskID.Value }

func (t *masterTask) isTerminal() bool { return events.IsTerminal(t.GetState()) }

// updateStatus records a status without its data, one for each state, newest
// last.
func (t *masterTask) updateStatus(s mesos.TaskStatus) {
	if !t.isTerminal() {
		t.State = s.State
	}
	s.Data = nil
	past := t.Statuses
	if n := len(past); n > 0 && past[n-1].GetState() == s.GetState() {
		past = past[:n-1]
	}
	t.Statuses = append(slices.Clone(past), s)
}

// isStale reports whether s is older than the newest status: a repeated status
// must not restore an old state. A terminal status is never stale, and only
// another terminal status may follow it.
func (t *masterTask) isStale(s mesos.TaskStatus) bool {
	n := len(t.Statuses)
	if n == 0 || events.IsTerminal(s.GetState()) {
		return false
	}
	newest := t.Statuses[n-1]
	byMaster := newest.Source != nil && *newest.Source == mesos.SOURCE_MASTER
	return t.isTerminal() || s.Timestamp != nil && !byMaster && *s.Timestamp < newest.GetTimestamp()
}
