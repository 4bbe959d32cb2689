package readmodel

import (
	"context"
	"maps"
	"sync"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// ChangeFeed collects changes until TakeChanges is called. It is for one reader, which must read at some time: nothing
// limits the changes that wait.
type ChangeFeed struct {
	// wake has an element when there may be changes.
	wake chan struct{}

	// mu protects the fields below.
	mu sync.Mutex
	// changedJobs are the changed jobs by NAME@RUN, as of the last change or before the removal.
	changedJobs map[string]*job.Spec
	// moves are the tasks after each change of their states, in the order of the changes.
	moves []job.Task
}

// NewChangeFeed returns an empty feed.
func NewChangeFeed() *ChangeFeed {
	return &ChangeFeed{wake: make(chan struct{}, 1), changedJobs: map[string]*job.Spec{}}
}

// addChanges adds changes and wakes the reader. The model calls it with its lock held, so that changes are in the order
// in which they are recorded.
func (n *ChangeFeed) addChanges(specs map[string]*job.Spec, moves []job.Task) {
	n.mu.Lock()
	maps.Copy(n.changedJobs, specs)
	n.moves = append(n.moves, moves...)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default: // an element is already there
	}
}

// TakeChanges returns the changed and removed jobs by NAME@RUN, and the task state changes in order,
// and removes both from the feed. The jobs include those of all returned tasks that exist.
func (n *ChangeFeed) TakeChanges() (changed map[string]*job.Spec, moves []job.Task) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed, n.changedJobs = n.changedJobs, map[string]*job.Spec{}
	moves, n.moves = n.moves, nil
	return changed, moves
}

// taskMoves returns the task after each of a change's state transitions. A task's
// data comes from the change, or from the model if another attempt has replaced it.
// The caller must not have applied the change to the model yet.
func (m *Model) taskMoves(c journal.Change, moves []sched.StateTransition) []job.Task {
	if len(moves) == 0 {
		return nil
	}
	now := make(map[string]*job.Task, len(c.Tasks))
	for i := range c.Tasks {
		now[c.Tasks[i].ID] = &c.Tasks[i]
	}
	before := make(map[string]int, len(moves)) // the index in list of each task's previous transition
	list := make([]job.Task, 0, len(moves))
	for _, move := range moves {
		last := m.tasks[move.TaskID]
		if i, known := before[move.TaskID]; known {
			last = &list[i]
		}
		if last != nil && last.State == move.State {
			continue // only the reason of its end has changed
		}
		t := job.Task{}
		switch named := now[move.TaskID]; {
		case named != nil:
			t = *named
		case last != nil:
			t = *last
		}
		t.ID, t.Job, t.Run, t.Index, t.State, t.Changed, t.Message = move.TaskID, move.Job, move.Run, move.Index, move.State, move.Time, move.Message
		if !t.State.IsLive() {
			t.Ended, t.ExitCode = move.Time, move.ExitCode
		}
		before[move.TaskID] = len(list)
		list = append(list, t)
	}
	return list
}

// AwaitChange waits until there may be changes that TakeChanges has not returned, or
// returns ctx's cause when it ends.
func (n *ChangeFeed) AwaitChange(ctx context.Context) error {
	select {
	case <-n.wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
