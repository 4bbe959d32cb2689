package api

import (
	"context"
	"net/http"
	"time"

	"mesos-gpu/marathon/deploy"
)

const (
	// keepAlive is how often an idle stream says that it is alive.
	keepAlive = 15 * time.Second
	// writeWait is how long a reader may take for what is written to it.
	writeWait = 10 * time.Second
)

// events streams what happens as server-sent events until the reader goes,
// its request's context ends, or it falls too far behind.
func (s *server) events(w http.ResponseWriter, r *http.Request) error {
	if g, bound := s.service.(interface{ Hear(context.Context) error }); bound {
		if err := g.Hear(r.Context()); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	q := r.URL.Query()
	own := s.bus.attach(q["event_type"], q.Get("plan-format") == "light")
	s.tell(StreamAttached{clientIP(r)})
	out := http.NewResponseController(w)
	_ = out.Flush() // the reader knows now that it hears all from here on
	pour(w, r, out, own)
	s.bus.detach(own)
	s.tell(StreamDetached{clientIP(r)})
	return nil
}

func (s *server) tell(ev deploy.Event) {
	if err := s.bus.Publish(s.now(), ev); err != nil {
		s.log.WithError(err).Error("publish an event")
	}
}

// pour writes a stream's events as they come.
func pour(w http.ResponseWriter, r *http.Request, out *http.ResponseController, own *stream) {
	idle := time.NewTicker(keepAlive)
	defer idle.Stop()
	for {
		var text []byte
		select {
		case next, ok := <-own.frames:
			if !ok {
				return
			}
			text = next
			own.behind.Add(-int64(len(text)))
		case <-idle.C:
			text = []byte(": alive\n\n")
		case <-r.Context().Done():
			return
		}
		_ = out.SetWriteDeadline(time.Now().Add(writeWait)) // a recorder in a test has none
		if _, err := w.Write(text); err != nil {
			return // the reader went away
		}
		if err := out.Flush(); err != nil {
			return
		}
	}
}
