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

// eventStream is one reader. types are the requested types, empty for all.
type eventStream struct {
	types map[string]bool
	// withGroups requests plans with all groups before and after the deployment.
	withGroups   bool
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

// sendEvent encodes an event for each form and sends it to the streams that requested it.
func (b *EventBus) sendEvent(ev deploy.BusEvent, at time.Time) error {
	forms := map[bool]deploy.BusEvent{false: ev, true: ev}
	if p, ok := ev.(deploy.PlanEvent); ok {
		forms[false] = p.WithoutGroups()
	}
	for withGroups, form := range forms {
		var text []byte
		for s := range b.streams {
			if s.withGroups != withGroups || len(s.types) > 0 && !s.types[ev.EventType()] {
				continue
			}
			if text == nil {
				var err error
				if text, err = encodeFrame(form, at); err != nil {
					return err
				}
			}
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

func (b *EventBus) addStream(types []string, withGroups bool) *eventStream {
	s := &eventStream{types: map[string]bool{}, withGroups: withGroups, frames: make(chan []byte, maxPendingFrames)}
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
