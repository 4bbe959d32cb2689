// Package status keeps the status updates that a framework has not yet
// acknowledged. It decides which update of a task goes out, and when it goes
// out again: one at a time for each task, in order, repeated with growing
// pauses until its acknowledgement. It is pure: the caller brings the time
// and does the sending.
package status

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
)

// TaskKey names a task across frameworks.
type TaskKey struct{ Framework, Task string }

// PendingUpdate is one status on its way to a framework.
type PendingUpdate struct {
	TaskKey
	Status mesos.TaskStatus
}

// UpdateStreams holds a queue of updates for each task. It is not safe for
// concurrent use.
type UpdateStreams struct {
	min, max time.Duration
	streams  map[TaskKey]*updateStream
}

type updateStream struct {
	pending []mesos.TaskStatus
	// seen holds the uuids of every update of the task: an executor that
	// reconnects sends again what was stored before.
	seen map[string]bool
	due  time.Time
	wait time.Duration
}

// New makes Streams that repeat an update first after min, then after twice
// the pause before, never more than max.
func New(min, max time.Duration) *UpdateStreams {
	return &UpdateStreams{min: min, max: max, streams: map[TaskKey]*updateStream{}}
}

// Add stores an update. It returns the update if it is to be sent now,
// nothing if others of the task wait before it or its uuid was seen before.
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

// startStream sends the first pending update for the first time.
func (s *UpdateStreams) startStream(now time.Time, key TaskKey, st *updateStream) []PendingUpdate {
	st.wait = s.min
	st.due = now.Add(st.wait)
	return []PendingUpdate{{key, st.pending[0]}}
}

// Ack takes the acknowledgement of a task's outstanding update. It returns
// the update and the one to send next, if any; ok is false where the uuid is
// not the outstanding one's.
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
	case link.IsTerminal(acked.GetState()):
		delete(s.streams, key)
	}
	return acked, next, true
}

// Unacknowledged returns every outstanding update and restarts its backoff, for
// a master that has none of them.
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

// DueUpdates returns the updates whose pause is over, and starts their next one.
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

// NextDue says when Due will have something to return; false where nothing
// waits for an acknowledgement.
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

// HasPending reports whether an update of the task waits.
func (s *UpdateStreams) HasPending(key TaskKey) bool {
	st := s.streams[key]
	return st != nil && len(st.pending) > 0
}

// IsBehind reports whether the task's latest update has yet to be sent: another
// waits before it.
func (s *UpdateStreams) IsBehind(key TaskKey) bool {
	st := s.streams[key]
	return st != nil && len(st.pending) > 1
}

// ForgetFramework drops a framework's updates, which no scheduler acknowledges.
func (s *UpdateStreams) ForgetFramework(framework string) {
	for key := range s.streams {
		if key.Framework == framework {
			delete(s.streams, key)
		}
	}
}
