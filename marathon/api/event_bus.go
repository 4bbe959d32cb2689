package api

import (
	"sync"
	"sync/atomic"
	"time"

	"mesos-gpu/marathon/deploy"
)

// EventBus sends events to the open streams. Publish never waits for a stream.
type EventBus struct {
	mu      sync.Mutex
	streams map[*eventStream]bool
}

// NewEventBus returns a bus without streams.
func NewEventBus() *EventBus { return &EventBus{streams: map[*eventStream]bool{}} }

// Bounds of a stream's unread events, above which it is closed. The number allows for a
// deployment of a few thousand instances. The bytes count because each event of a deployment
// contains all groups twice.
const (
	maxPendingFrames = 8192
	maxPendingBytes  = 64 << 20
)

// eventForm is the form in which a stream has its events.
type eventForm struct {
	// withGroups requests plans with all groups before and after the deployment.
	withGroups bool
	// public leaves out what a user without ReadOutput may not read.
	public bool
}

// apply returns an event in the form, nil if the form has no such event.
func (f eventForm) apply(ev deploy.BusEvent) deploy.BusEvent {
	if p, ok := ev.(deploy.PlanEvent); ok && !f.withGroups {
		ev = p.WithoutGroups()
	}
	if f.public {
		return publicEvent(ev)
	}
	return ev
}

// eventStream is one reader. types are the requested types, empty for all.
type eventStream struct {
	types        map[string]bool
	form         eventForm
	frames       chan []byte // closed when the reader is too slow
	pendingBytes atomic.Int64
}

// Publish sends events that happened at a time.
func (b *EventBus) Publish(at time.Time, events ...deploy.BusEvent) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.streams) == 0 {
		return nil
	}
	for _, event := range events {
		for _, ev := range withLegacyForm(event) {
			if err := b.sendEvent(ev, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendEvent sends an event to the streams that requested it. It encodes each form once.
func (b *EventBus) sendEvent(ev deploy.BusEvent, at time.Time) error {
	encoded := map[eventForm][]byte{}
	for s := range b.streams {
		if len(s.types) > 0 && !s.types[ev.EventType()] {
			continue
		}
		text, ok := encoded[s.form]
		if !ok {
			if shown := s.form.apply(ev); shown != nil {
				var err error
				if text, err = encodeFrame(shown, at); err != nil {
					return err
				}
			}
			encoded[s.form] = text
		}
		if text != nil {
			b.sendFrame(s, text)
		}
	}
	return nil
}

// sendFrame closes a stream that is too far behind, because it would miss events. A single
// event is always accepted.
func (b *EventBus) sendFrame(s *eventStream, text []byte) {
	if s.pendingBytes.Load() <= maxPendingBytes {
		select {
		case s.frames <- text:
			s.pendingBytes.Add(int64(len(text)))
			return
		default:
		}
	}
	delete(b.streams, s)
	close(s.frames)
}

func (b *EventBus) addStream(types []string, form eventForm) *eventStream {
	s := &eventStream{types: map[string]bool{}, form: form, frames: make(chan []byte, maxPendingFrames)}
	for _, t := range types {
		s.types[t] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.streams[s] = true
	return s
}

func (b *EventBus) removeStream(s *eventStream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.streams, s)
}

// CloseStreams closes all streams.
func (b *EventBus) CloseStreams() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.streams {
		delete(b.streams, s)
		close(s.frames)
	}
}
