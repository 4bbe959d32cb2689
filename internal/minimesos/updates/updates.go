// Package updates queues the status updates of tasks that a framework has not
// acknowledged, as Mesos's agent does. It decides which update of a task is sent
// and when it is resent. Each task has at most one outstanding update; updates are
// sent in order and resent with exponential backoff until they are acknowledged.
// The package is pure: the caller passes the time and sends the updates.
package updates

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/minimesos/events"
)

// TaskKey identifies a task across frameworks.
type TaskKey struct{ Framework, Task string }

// PendingUpdate is a status update that the caller sends to a framework.
type PendingUpdate struct {
	TaskKey
	Status mesos.TaskStatus
}

// UpdateStreams is a queue of updates per task. It is not safe for concurrent
// use.
type UpdateStreams struct {
	min, max time.Duration
	streams  map[TaskKey]*updateStream
}

type updateStream struct {
	pending []mesos.TaskStatus
	// seen contains the uuids of all updates of the task, because a
	// reconnecting executor resends updates that are already stored.
	seen map[string]bool
	due  time.Time
	wait time.Duration
}

// New returns empty UpdateStreams. They resend an update after min and then
// after twice the previous interval, at most max.
func New(min, max time.Duration) *UpdateStreams {
	return &UpdateStreams{min: min, max: max, streams: map[TaskKey]*updateStream{}}
}

// Add stores an update. It returns the update if it can be sent immediately. It
// returns nothing if another update of the task is outstanding or if the uuid
// is a duplicate.
func (s *UpdateStreams) Add(now time.Time, key TaskKey, status mesos.TaskStatus) []PendingUpdate {
	st, ok := s.streams[key]
	if !ok {
		st = &updateStream{seen: map[string]bool{}}
		s.streams[key] = st
	}
	if st.seen[string(status.UUID)] {
		return nil
	}
	st.seen[string(status.UUID)] = true
	st.pending = append(st.pending, status)
	if len(st.pending) > 1 {
		return nil
	}
	return s.startStream(now, key, st)
}

// startStream returns the first pending update and starts its backoff.
func (s *UpdateStreams) startStream(now time.Time, key TaskKey, st *updateStream) []PendingUpdate {
	st.wait = s.min
	st.due = now.Add(st.wait)
	return []PendingUpdate{{key, st.pending[0]}}
}

// Ack handles the acknowledgement of a task's outstanding update. It returns
// the update and the next one to send, if any. ok is false if uuid is not that
// of the outstanding update.
func (s *UpdateStreams) Ack(now time.Time, key TaskKey, uuid []byte) (acked mesos.TaskStatus, next []PendingUpdate, ok bool) {
	st := s.streams[key]
	if st == nil || len(st.pending) == 0 || !bytes.Equal(st.pending[0].UUID, uuid) {
		return mesos.TaskStatus{}, nil, false
	}
	acked = st.pending[0]
	st.pending = st.pending[1:]
	switch {
	case len(st.pending) > 0:
		next = s.startStream(now, key, st)
	case events.IsTerminal(acked.GetState()):
		delete(s.streams, key)
	}
	return acked, next, true
}

// Unacknowledged returns every outstanding update and restarts its backoff. It
// is for a master that has no record of them.
func (s *UpdateStreams) Unacknowledged(now time.Time) []PendingUpdate {
	var all []PendingUpdate
	for key, st := range s.streams {
		if len(st.pending) > 0 {
			all = append(all, s.startStream(now, key, st)...)
		}
	}
	return inOrder(all)
}

func inOrder(all []PendingUpdate) []PendingUpdate {
	slices.SortFunc(all, func(a, b PendingUpdate) int {
		return cmp.Or(cmp.Compare(a.Framework, b.Framework), cmp.Compare(a.Task, b.Task))
	})
	return all
}

// DueUpdates returns the updates whose interval has elapsed, and starts the
// next one.
func (s *UpdateStreams) DueUpdates(now time.Time) []PendingUpdate {
	var due []PendingUpdate
	for key, st := range s.streams {
		if len(st.pending) == 0 || st.due.After(now) {
			continue
		}
		st.wait = min(2*st.wait, s.max)
		st.due = now.Add(st.wait)
		due = append(due, PendingUpdate{key, st.pending[0]})
	}
	return inOrder(due)
}

// NextDue returns the time at which DueUpdates next returns an update. It
// returns false if no update is outstanding.
func (s *UpdateStreams) NextDue() (time.Time, bool) {
	var next time.Time
	found := false
	for _, st := range s.streams {
		if len(st.pending) > 0 && (!found || st.due.Before(next)) {
			next, found = st.due, true
		}
	}
	return next, found
}

// Pending returns the unacknowledged updates of a task, oldest first.
func (s *UpdateStreams) Pending(key TaskKey) []mesos.TaskStatus {
	if st := s.streams[key]; st != nil {
		return st.pending
	}
	return nil
}

// HasPending reports whether an update of the task is unacknowledged.
func (s *UpdateStreams) HasPending(key TaskKey) bool {
	st := s.streams[key]
	return st != nil && len(st.pending) > 0
}

// IsBehind reports whether the task's latest update has not been sent because
// an earlier one is outstanding.
func (s *UpdateStreams) IsBehind(key TaskKey) bool {
	st := s.streams[key]
	return st != nil && len(st.pending) > 1
}

// ForgetFramework drops the updates of a framework without a scheduler.
func (s *UpdateStreams) ForgetFramework(framework string) {
	for key := range s.streams {
		if key.Framework == framework {
			delete(s.streams, key)
		}
	}
}
