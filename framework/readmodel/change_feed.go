package readmodel

import (
	"context"
	"sync"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// ChangeFeed collects changes until they are taken. A nil feed collects
// nothing.
type ChangeFeed struct {
	wake chan struct{} // has one when there may be some

	mu          sync.Mutex
	changedJobs map[string]bool
	moves       []job.Task
}

func NewChangeFeed() *ChangeFeed {
	return &ChangeFeed{wake: make(chan struct{}, 1), changedJobs: map[string]bool{}}
}

func (n *ChangeFeed) addChanges(names []string, moves []job.Task) {
	if n == nil {
		return
	}
	n.mu.Lock()
	for _, name := range names {
		n.changedJobs[name] = true
	}
	n.moves = append(n.moves, moves...)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default: // it has one
	}
}

func (n *ChangeFeed) TakeChanges() (names []string, moves []job.Task) {
	n.mu.Lock()
	defer n.mu.Unlock()
	names = make([]string, 0, len(n.changedJobs))
	for name := range n.changedJobs {
		names = append(names, name)
	}
	clear(n.changedJobs)
	moves, n.moves = n.moves, nil
	return names, moves
}

// taskMoves are the tasks of a change after each of its moves. What is known of
// an attempt is what the change says of it or, where another has taken its
// place, what was recorded last. The view is that before the change.
func (v *Model) taskMoves(c journal.Change, moves []sched.StateTransition) []job.Task {
	if len(moves) == 0 {
		return nil
	}
	now := make(map[string]*job.Task, len(c.Tasks))
	for i := range c.Tasks {
		now[c.Tasks[i].ID] = &c.Tasks[i]
	}
	before := make(map[string]int, len(moves)) // where in the list
	list := make([]job.Task, 0, len(moves))
	for _, m := range moves {
		last := v.tasks[m.TaskID]
		if i, known := before[m.TaskID]; known {
			last = &list[i]
		}
		if last != nil && last.State == m.State {
			continue // only why it ended has changed
		}
		t := job.Task{}
		switch named := now[m.TaskID]; {
		case named != nil:
			t = *named
		case last != nil:
			t = *last
		}
		t.ID, t.Job, t.Index, t.State, t.Changed, t.Message = m.TaskID, m.Job, m.Index, m.State, m.Time, m.Message
		if !t.State.IsLive() {
			t.Ended, t.ExitCode = m.Time, m.ExitCode
		}
		before[m.TaskID] = len(list)
		list = append(list, t)
	}
	return list
}

// AwaitChange waits until there may be changes that takeChanges has not
// returned, or ctx ends.
func (n *ChangeFeed) AwaitChange(ctx context.Context) error {
	select {
	case <-n.wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
