package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// EventSource publishes changes.
type EventSource interface {
	// WatchEvents returns a channel of batches: first the states of all tasks, or
	// the events after q.After, then later events. The channel is closed when ctx
	// ends, when the backend publishes nothing further, or after a batch with
	// Missed. The channel is unbuffered, so that a slow reader occupies little
	// memory.
	WatchEvents(ctx context.Context, q request.EventQuery) (<-chan request.EventBatch, error)
	// KnowsEvent reports whether a stream can continue after the event with this ID.
	KnowsEvent(id string) bool
	// ReadStates calls visit with the states of all tasks, in batches, and returns the ID of the event
	// after which a stream continues. It ends with the error of visit, or with request.ErrEventsMissed
	// if visit was too slow.
	ReadStates(q request.EventQuery, visit func(*request.EventBatch) error) (position string, err error)
}

// keepAliveInterval is the interval of keep-alive messages on an idle stream.
const keepAliveInterval = 15 * time.Second

// lastEventID is the header with which a client resumes a broken stream. Browsers send
// it automatically.
const lastEventID = "Last-Event-ID"

// inventoryEvent is sent only to clients that request it. It has an event name, so that
// clients that expect only task events ignore it.
const inventoryEvent = "event: inventory\ndata: {}\n\n"

// resetEvent ends the stream of a client that is too slow. Its next stream starts with the
// present states.
const resetEvent = "event: reset\ndata: {}\n\n"

// handleEvents streams task states as server-sent events. It first sends the present
// states, only those of live tasks, or the events that the client has missed; then each
// change. It disconnects a client that is too slow; the client can resume the stream.
func (s *apiServer) handleEvents(w http.ResponseWriter, r *http.Request) error {
	q := request.EventQuery{Job: r.URL.Query().Get("job"), After: r.Header.Get(lastEventID)}
	switch state := r.URL.Query().Get("state"); state {
	case api.LiveJobs:
		q.LiveOnly = true
	case "":
	default:
		return api.NewProblemf(http.StatusBadRequest, "state %q is not %s: leave it out for all tasks, also those that have ended", state, api.LiveJobs)
	}
	inventory, err := parseBoolParameter(r.URL.Query(), "inventory")
	if err != nil {
		return err
	}
	q.WithInventory = inventory
	if q.Job != "" {
		found, err := s.findJob(r, q.Job, access.View)
		if err != nil {
			return err
		}
		run, owner := found.Selects()
		q.Job, q.Owner = run.Reference(), owner
	}
	reads, err := s.reads(r.Context())
	if err != nil {
		return err
	}
	stream := &eventWriter{w: w, out: http.NewResponseController(w), idle: time.NewTicker(keepAliveInterval)}
	defer stream.idle.Stop()
	if q.Job == "" {
		if q.After, err = s.sendFirstAnswer(r, reads, q, stream); err != nil {
			if errors.Is(err, request.ErrEventsMissed) {
				_ = stream.write([]byte(resetEvent))
			}
			return nil // the client has disconnected, or reconnects; likewise below
		}
	}
	batches, err := reads.Events.WatchEvents(r.Context(), q)
	if err != nil {
		return abortIfStarted(stream.started, err)
	}
	if err := stream.start(); err != nil {
		return nil
	}
	for {
		select {
		case b, ok := <-batches:
			if !ok {
				return nil
			}
			err = writeBatch(r, reads, &b, stream.write)
		case <-stream.idle.C:
			err = stream.keepAlive()
		case <-r.Context().Done():
			return nil
		}
		if err != nil {
			return nil
		}
	}
}

// sendFirstAnswer sends the present states of all jobs, unless the client knows them, when it is the client's turn. It returns the
// ID of the event after which the stream continues.
func (s *apiServer) sendFirstAnswer(r *http.Request, reads *ReadBackend, q request.EventQuery, stream *eventWriter) (position string, err error) {
	if reads.Events.KnowsEvent(q.After) {
		return q.After, nil
	}
	if err := stream.start(); err != nil {
		return "", err
	}
	client := clientOf(r)
	turns := s.firstAnswers.turns.join(client)
	defer s.firstAnswers.turns.leave(client, turns)
	for waits := true; waits; {
		select {
		case turns.running <- struct{}{}:
			waits = false
		case <-stream.idle.C:
			err = stream.keepAlive()
		case <-r.Context().Done():
			err = r.Context().Err()
		}
		if err != nil {
			return "", err
		}
	}
	defer func() { <-turns.running }()
	for position = ""; !reads.Events.KnowsEvent(position); { // a client that reads slowly may have missed the events since
		if position, err = s.firstAnswers.send(r, reads, q, stream.write); err != nil {
			return "", err
		}
	}
	return position, nil
}

// eventWriter writes one event stream.
type eventWriter struct {
	w    http.ResponseWriter
	out  *http.ResponseController
	idle *time.Ticker
	// started is true once the header is written.
	started bool
}

// start writes the header, once.
func (e *eventWriter) start() error {
	if e.started {
		return nil
	}
	e.started = true
	e.w.Header().Set("Content-Type", "text/event-stream")
	e.w.Header().Set("Cache-Control", "no-store")
	e.w.WriteHeader(http.StatusOK)
	return e.write(nil)
}

func (e *eventWriter) write(text []byte) error { return writeAndFlush(e.out, e.w, text) }

func (e *eventWriter) keepAlive() error { return e.write([]byte(": alive\n\n")) }

// writeBatch writes the part of a batch that the requester may see.
func writeBatch(r *http.Request, reads *ReadBackend, b *request.EventBatch, write func([]byte) error) error {
	buffer := eventBuffers.Get().(*[]byte)
	defer eventBuffers.Put(buffer)
	if *buffer = appendBatch(r, reads, (*buffer)[:0], b); len(*buffer) == 0 {
		return nil
	}
	return write(*buffer)
}

// eventBuffers are buffers for encoded batches. A stream has one only while it writes.
var eventBuffers = sync.Pool{New: func() any { return new([]byte) }}

// appendBatch appends what is sent for a batch: nothing if the requester may see none of it.
func appendBatch(r *http.Request, reads *ReadBackend, data []byte, b *request.EventBatch) []byte {
	sent := "" // the ID of the last event that the client gets
	mask := nameMask(r.Context(), reads.Jobs)
	for _, ev := range b.Events {
		size := len(data)
		if data = appendIfVisible(r, reads, mask, data, ev); len(data) > size {
			sent = ev.ID
		}
	}
	if b.Position != "" && sent != b.Position {
		data = append(data, "id: "+b.Position+"\n\n"...)
	}
	if b.Missed {
		data = append(data, resetEvent...)
	}
	return data
}

// appendIfVisible appends an event if the requester may see it. It omits the event of a
// job that has been removed, because the job's owner is no longer known.
func appendIfVisible(r *http.Request, reads *ReadBackend, mask *job.NameMask, to []byte, ev api.TaskEvent) []byte {
	if ev.InventoryChanged {
		return append(to, inventoryEvent...)
	}
	has, err := accessToJob(r.Context(), reads, ev.Job, ev.Task)
	if err != nil || !has.sees {
		return to
	}
	if !has.readsOutput {
		ev = publicEvent(&ev)
	}
	ev.Message = mask.MaskText(ev.Message)
	return appendEvent(to, ev)
}

// appendEvent appends an event in the format of server-sent events. An event without an ID does not change the position
// from which a client resumes.
func appendEvent(to []byte, ev api.TaskEvent) []byte {
	text, err := json.Marshal(ev)
	if err != nil {
		return to // cannot fail: the event has only strings and a time
	}
	if ev.ID != "" {
		to = append(append(append(to, "id: "...), ev.ID...), '\n')
	}
	to = append(to, "data: "...)
	to = append(to, text...)
	return append(to, "\n\n"...)
}
