package socket

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// streamConditions writes a line for each change until the client disconnects
// or reads nothing for too long.
func (s *Server) streamConditions(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	changes, err := s.cfg.Devices.WatchConditions(ctx, r.URL.Query()["device"]...)
	if err != nil {
		s.writeError(w, err)
		return
	}
	connection := http.NewResponseController(w)
	// The request is read: its read deadline must not end the stream.
	_ = connection.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "application/x-ndjson")
	if connection.Flush() != nil {
		return
	}
	lines := json.NewEncoder(w)
	for change := range changes {
		if lines.Encode(change) != nil || connection.Flush() != nil {
			return
		}
	}
}
