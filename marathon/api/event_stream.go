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

// eventAuthorizer is an AppService that restricts who may read the event stream.
type eventAuthorizer interface {
	AuthorizeEvents(ctx context.Context) error
}

var _ eventAuthorizer = (*authorizedService)(nil)

// streamEvents streams what happens as server-sent events until the reader goes,
// its request's context ends, or it falls too far behind.
func (s *apiServer) streamEvents(w http.ResponseWriter, r *http.Request) error {
	if g, ok := s.service.(eventAuthorizer); ok {
		if err := g.AuthorizeEvents(r.Context()); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	q := r.URL.Query()
	own := s.bus.addStream(q["event_type"], q.Get("plan-format") == "light")
	s.publishEvent(StreamAttached{clientIP(r)})
	out := http.NewResponseController(w)
	_ = out.Flush() // the reader knows now that it hears all from here on
	writeFrames(w, r, out, own)
	s.bus.removeStream(own)
	s.publishEvent(StreamDetached{clientIP(r)})
	return nil
}

func (s *apiServer) publishEvent(ev deploy.BusEvent) {
	if err := s.bus.Publish(s.now(), ev); err != nil {
		s.log.WithError(err).Error("publish an event")
	}
}

// writeFrames writes a stream's events as they come.
func writeFrames(w http.ResponseWriter, r *http.Request, out *http.ResponseController, own *eventStream) {
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
			own.pendingBytes.Add(-int64(len(text)))
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
