package readmodel

import (
	"context"
	"slices"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

const (
	// eventBatch is how many events or task states a stream reads at a time: all that it
	// holds in memory for a slow reader.
	eventBatch = 64
	// scannedTasks limits how many tasks a stream examines in one read: changes wait for it.
	scannedTasks = 10_000
)

// eventStream is one reader of the events. It holds a position, and no events. Only the goroutine of WatchEvents uses it.
type eventStream struct {
	model *Model
	query request.EventQuery
	// selected are the events of the query.
	selected eventSelection
	listener *eventListener
	// position is the number of the last event that the stream has examined.
	position uint64
	// inventoryChanges is the number of changes that the reader has been notified of.
	inventoryChanges uint64
	// readsStates is true while the stream sends the present states. next is the first task whose state it has not sent.
	readsStates bool
	next        taskPlace
}

// streamProgress states how a stream continues after a batch.
type streamProgress int

const (
	streamContinues streamProgress = iota // more can be read now
	streamWaits                           // the listener is notified when there is more
	streamEnds                            // nothing follows, or events were missed
)

// openStream returns a stream that starts with the events after q.After or, if they are not
// known, with the present states.
func (m *Model) openStream(q request.EventQuery) (*eventStream, error) {
	m.mu.RLock() // no event is published meanwhile
	defer m.mu.RUnlock()
	s := &eventStream{model: m, query: q}
	if q.Job != "" {
		s.selected.run, _ = job.ParseRunID(q.Job)
		s.selected.owner = q.Owner
		if _, ok := s.newestRun(); !ok {
			return nil, api.UnknownJob(q.Job)
		}
	}
	known := false
	if s.position, known = m.hub.parseEventID(q.After); !known {
		s.readsStates, s.position = true, m.hub.lastNumber()
	}
	s.listener, s.inventoryChanges = m.hub.addListener(s.selected, q.WithInventory)
	return s, nil
}

// newestRun returns the run of the query, or the newest run of its job. The caller holds the lock.
func (s *eventStream) newestRun() (*jobEntry, bool) {
	if s.selected.run.Run == 0 {
		return s.model.jobs.NewestOfOwner(s.selected.owner, s.selected.run.Name)
	}
	return s.model.jobs.Find(s.query.Job)
}

// readBatch returns what follows, without waiting.
func (s *eventStream) readBatch() (b request.EventBatch, then streamProgress) {
	if s.readsStates {
		return s.readStates()
	}
	events, last, ok := s.model.hub.readEvents(s.position, &s.selected, eventBatch)
	if !ok {
		return request.EventBatch{Missed: true}, streamEnds
	}
	s.position = last
	for i := range events {
		b.Events = append(b.Events, events[i].TaskEvent)
	}
	changes, closed := s.model.hub.inventoryState()
	if s.query.WithInventory && changes != s.inventoryChanges {
		s.inventoryChanges = changes
		b.Events = append(b.Events, api.TaskEvent{InventoryChanged: true})
	}
	switch {
	case len(events) == eventBatch:
		return b, streamContinues
	case closed:
		return b, streamEnds
	}
	return b, streamWaits
}

// readStates returns a part of the present states, in the order of the jobs. Before it, the
// batch has the events of the tasks whose states were sent with earlier batches. Events of
// the other tasks are omitted, because their states are yet to be sent. The result of all
// batches is therefore the same as that of the states at one time and all later events.
func (s *eventStream) readStates() (b request.EventBatch, then streamProgress) {
	v := s.model
	v.mu.RLock() // no event is published meanwhile
	defer v.mu.RUnlock()
	events, last, ok := v.hub.readEvents(s.position, &s.selected, eventBatch)
	if !ok {
		return request.EventBatch{Missed: true}, streamEnds
	}
	s.position = last
	for i := range events {
		if events[i].place.isBefore(&s.next) {
			events[i].ID = "" // a stream that resumed here would lack the other states
			b.Events = append(b.Events, events[i].TaskEvent)
		}
	}
	if len(events) == eventBatch {
		return b, streamContinues
	}
	b.Events, s.readsStates = s.appendStates(slices.Grow(b.Events, eventBatch))
	if s.readsStates {
		return b, streamContinues
	}
	if n := len(b.Events); n > 0 || s.next != (taskPlace{}) { // there are tasks
		b.Position = v.hub.formatEventID(s.position)
		if n > 0 {
			b.Events[n-1].ID = b.Position
		}
	}
	return b, streamContinues
}

// appendStates appends the states of the next tasks, and reports whether more follow. The
// caller holds the lock.
func (s *eventStream) appendStates(to []api.TaskEvent) (events []api.TaskEvent, more bool) {
	entries := s.model.bySubmission
	if s.query.Job != "" {
		entries = nil
		if e, ok := s.newestRun(); ok {
			entries = []*jobEntry{e}
		}
	}
	first, _ := slices.BinarySearchFunc(entries, &jobEntry{Job: job.Job{Spec: &job.Spec{Name: s.next.job}, Submitted: s.next.submitted}}, compareSubmission)
	limit := len(to) + eventBatch
	scanned := 0
	for _, e := range entries[first:] {
		at := taskPlace{submitted: e.Submitted, job: e.Spec.Name}
		if at.submitted.Equal(s.next.submitted) && at.job == s.next.job {
			at.index = s.next.index
		}
		if e.removed || e.superseded && s.query.Job == "" || s.query.LiveOnly && e.liveTasks == 0 {
			at.index = len(e.Tasks)
		}
		scanned++
		for ; at.index < len(e.Tasks); at.index++ {
			if len(to) == limit || scanned >= scannedTasks {
				s.next = at
				return to, true
			}
			scanned++
			if t := &e.Tasks[at.index]; !s.query.LiveOnly || t.State.IsLive() {
				to = append(to, stateEvent(t))
			}
		}
	}
	return to, false
}

// WatchEvents returns a channel of batches: first the states of all tasks, or the events
// after q.After, then later events. The channel is closed when ctx ends, the model publishes
// nothing further, or after a batch with Missed. It holds one batch for a slow reader.
func (m *Model) WatchEvents(ctx context.Context, q request.EventQuery) (<-chan request.EventBatch, error) {
	s, err := m.openStream(q)
	if err != nil {
		return nil, err
	}
	batches := make(chan request.EventBatch)
	go func() {
		defer close(batches)
		defer m.hub.removeListener(s.listener)
		for {
			b, then := s.readBatch()
			if len(b.Events) > 0 || b.Position != "" || b.Missed {
				select {
				case batches <- b:
				case <-ctx.Done():
					return
				}
			}
			switch then {
			case streamEnds:
				return
			case streamWaits:
				select {
				case <-s.listener.wake:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return batches, nil
}

// KnowsEvent reports whether a stream can continue after the event with this ID.
func (m *Model) KnowsEvent(id string) bool {
	_, known := m.hub.parseEventID(id)
	return known
}

// ReadStates calls visit with the present states of the tasks that q selects, in batches, and returns the ID of the event after
// which a stream continues. It ends with the error of visit, or with request.ErrEventsMissed if visit was too slow.
func (m *Model) ReadStates(q request.EventQuery, visit func(*request.EventBatch) error) (position string, err error) {
	q.After = ""
	s, err := m.openStream(q)
	if err != nil {
		return "", err
	}
	defer m.hub.removeListener(s.listener)
	for s.readsStates {
		b, _ := s.readBatch()
		if b.Missed {
			return "", request.ErrEventsMissed
		}
		if len(b.Events) == 0 && b.Position == "" {
			continue
		}
		if err := visit(&b); err != nil {
			return "", err
		}
	}
	return m.hub.formatEventID(s.position), nil
}

// CloseListeners ends all event streams, also those that start later.
func (m *Model) CloseListeners() { m.hub.closeListeners() }

// PublishInventoryChange notifies clients that watch the inventory: agents or
// their GPUs have changed.
func (m *Model) PublishInventoryChange() { m.hub.publishInventoryChange() }
