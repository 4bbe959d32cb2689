package api

import (
	"encoding/json"
	"net/http"
	"time"
)

// keepAlive is how often an idle stream says that it is alive.
const keepAlive = 15 * time.Second

// events streams states as server-sent events: first all as they are, then
// each change. A client that is too slow is cut off, and begins anew.
func (s *server) events(w http.ResponseWriter, r *http.Request) error {
	now, changes, err := s.backend().Events(r.Context(), r.URL.Query().Get("job"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	var first []byte
	for _, ev := range now {
		first = appendEvent(first, ev)
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
			data = appendEvent(nil, ev)
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

func appendEvent(to []byte, ev Event) []byte {
	text, err := json.Marshal(ev)
	if err != nil {
		return to // strings and a time: it cannot fail
	}
	to = append(to, "data: "...)
	to = append(to, text...)
	return append(to, "\n\n"...)
}
