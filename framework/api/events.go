package api

import (
	"encoding/json"
	"net/http"
	"time"

	"mesos-gpu/framework/access"
)

// keepAlive is how often an idle stream says that it is alive.
const keepAlive = 15 * time.Second

// events streams states as server-sent events: first all as they are, then
// each change. A client that is too slow is cut off, and begins anew.
func (s *server) events(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("job")
	if name != "" && GrantOf(r.Context()) != nil {
		if err := s.onJob(r, name, "", access.View); err != nil {
			return err
		}
	}
	now, changes, err := s.backend().Events(r.Context(), name)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	var first []byte
	for _, ev := range now {
		first = s.appendSeen(r, first, ev)
	}
	if err := push(out, w, first); err != nil {
		return nil // the client went away; so below
	}
	idle := time.NewTicker(keepAlive)
	defer idle.Stop()
	for {
		var data []byte
		select {
		case ev, ok := <-changes:
			if !ok {
				return nil
			}
			if data = s.appendSeen(r, nil, ev); data == nil {
				continue
			}
		case <-idle.C:
			data = []byte(": alive\n\n")
		case <-r.Context().Done():
			return nil
		}
		if err := push(out, w, data); err != nil {
			return nil
		}
	}
}

// appendSeen leaves out what the requester may not see. The job may have gone
// meanwhile, and then nobody knows whose it was.
func (s *server) appendSeen(r *http.Request, to []byte, ev Event) []byte {
	if sees, err := s.sees(r.Context(), ev.Job, ev.Task); err != nil || !sees {
		return to
	}
	return appendEvent(to, ev)
}

func appendEvent(to []byte, ev Event) []byte {
	text, err := json.Marshal(ev)
	if err != nil {
		return to // strings and a time: it cannot fail
	}
	to = append(to, "data: "...)
	to = append(to, text...)
	return append(to, "\n\n"...)
}
