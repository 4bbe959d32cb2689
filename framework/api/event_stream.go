package api

import (
	"encoding/json"
	"net/http"
	"time"

	"mesos-gpu/framework/access"
)

// keepAliveInterval is how often an idle stream says that it is alive.
const keepAliveInterval = 15 * time.Second

// lastEventID is the header by which a client goes on where its stream broke.
// Browsers send it by themselves.
const lastEventID = "Last-Event-ID"

// inventoryEvent is for who asked for it: it has a name, so that clients that
// take every event for a task's are not disturbed.
const inventoryEvent = "event: inventory\ndata: {}\n\n"

// handleEvents streams states as server-sent events: first all as they are, or only
// those of tasks that have not ended, or what the client has missed; then each
// change. A client that is too slow is cut off, and may go on likewise.
func (s *apiServer) handleEvents(w http.ResponseWriter, r *http.Request) error {
	q := EventQuery{Job: r.URL.Query().Get("job"), After: r.Header.Get(lastEventID)}
	switch state := r.URL.Query().Get("state"); state {
	case LiveJobs:
		q.LiveOnly = true
	case "":
	default:
		return NewProblemf(http.StatusBadRequest, "state %q is not %s: leave it out for all tasks, also those that have ended", state, LiveJobs)
	}
	switch inventory := r.URL.Query().Get("inventory"); inventory {
	case "true":
		q.WithInventory = true
	case "", "false":
	default:
		return NewProblemf(http.StatusBadRequest, "inventory %q is neither true nor false", inventory)
	}
	if q.Job != "" && GrantOf(r.Context()) != nil {
		if err := s.checkJobAccess(r, q.Job, access.View); err != nil {
			return err
		}
	}
	reads, err := s.reads(r.Context())
	if err != nil {
		return err
	}
	now, changes, err := reads.WatchEvents(r.Context(), q)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	var first []byte
	for _, ev := range now {
		size := len(first)
		if first = s.appendIfVisible(r, first, ev); len(first) == size {
			first = appendEventID(first, ev.ID)
		}
	}
	if err := writeAndFlush(out, w, first); err != nil {
		return nil // the client went away; so below
	}
	idle := time.NewTicker(keepAliveInterval)
	defer idle.Stop()
	for {
		var data []byte
		select {
		case ev, ok := <-changes:
			if !ok {
				return nil
			}
			if data = s.appendPending(r, s.appendIfVisible(r, nil, ev), changes); data == nil {
				continue
			}
		case <-idle.C:
			data = []byte(": alive\n\n")
		case <-r.Context().Done():
			return nil
		}
		if err := writeAndFlush(out, w, data); err != nil {
			return nil
		}
	}
}

// maxEventBatch bounds what is written to a stream at once.
const maxEventBatch = 64 << 10

// appendPending adds what else has happened meanwhile: events come in bursts, and
// each push is a system call for each client.
func (s *apiServer) appendPending(r *http.Request, to []byte, changes <-chan TaskEvent) []byte {
	for len(to) < maxEventBatch {
		select {
		case ev, ok := <-changes:
			if !ok {
				return to // the next receive finds out too
			}
			to = s.appendIfVisible(r, to, ev)
		default:
			return to
		}
	}
	return to
}

// appendIfVisible leaves out what the requester may not see. The job may have gone
// meanwhile, and its owner is not known any more.
func (s *apiServer) appendIfVisible(r *http.Request, to []byte, ev TaskEvent) []byte {
	if ev.InventoryChanged {
		return append(to, inventoryEvent...)
	}
	if sees, err := s.canSeeJob(r.Context(), ev.Job, ev.Task); err != nil || !sees {
		return to
	}
	return appendEvent(to, ev)
}

func appendEvent(to []byte, ev TaskEvent) []byte {
	text, err := json.Marshal(ev)
	if err != nil {
		return to // strings and a time: it cannot fail
	}
	if ev.ID != "" {
		to = append(append(append(to, "id: "...), ev.ID...), '\n')
	}
	to = append(to, "data: "...)
	to = append(to, text...)
	return append(to, "\n\n"...)
}

// appendEventID appends the stream position alone, in place of an event that the
// client may not see.
func appendEventID(to []byte, id string) []byte {
	if id == "" {
		return to
	}
	return append(append(append(to, "id: "...), id...), "\n\n"...)
}
