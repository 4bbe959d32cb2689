package api

import (
	"context"
	"net/http"
	"time"

	"mesos-gpu/marathon/deploy"
)

const (
	// keepAlive is the interval of comments in an idle stream.
	keepAlive = 15 * time.Second
	// writeWait is the timeout of a write to a reader.
	writeWait = 10 * time.Second
)

// eventAuthorizer is an AppService that restricts who may read the event stream, and which fields.
type eventAuthorizer interface {
	AuthorizeEvents(ctx context.Context) error
	ReadsPublicEvents(ctx context.Context) bool
}

var _ eventAuthorizer = (*authorizedService)(nil)

// streamEvents writes server-sent events until the client disconnects, the request's context
// ends, or the client is too far behind.
func (s *apiServer) streamEvents(w http.ResponseWriter, r *http.Request) error {
	form := eventForm{withGroups: r.URL.Query().Get("plan-format") == "heavy"}
	if g, ok := s.service.(eventAuthorizer); ok {
		if err := g.AuthorizeEvents(r.Context()); err != nil {
			return err
		}
		form.public = g.ReadsPublicEvents(r.Context())
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	own := s.bus.addStream(r.URL.Query()["event_type"], form)
	s.publishEvent(StreamAttached{clientIP(r)})
	out := http.NewResponseController(w)
	_ = out.Flush() // from here on the client gets all events
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

// writeFrames writes the events of a stream as they arrive.
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
			text = []byte(": alive\r\n\r\n")
		case <-r.Context().Done():
			return
		}
		_ = out.SetWriteDeadline(time.Now().Add(writeWait)) // a test's recorder has no deadlines
		if _, err := w.Write(text); err != nil {
			return // the client has disconnected
		}
		if err := out.Flush(); err != nil {
			return
		}
	}
}
