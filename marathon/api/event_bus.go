package api

import (
	"sync"
	"sync/atomic"
	"time"

	"mesos-gpu/marathon/deploy"
)

// EventBus carries events to the streams that are open. Publishing never waits.
type EventBus struct {
	mu      sync.Mutex
	streams map[*eventStream]bool
}

// NewEventBus has no streams yet.
func NewEventBus() *EventBus { return &EventBus{streams: map[*eventStream]bool{}} }

// A stream may be so many events behind before it is cut off, those of a
// deployment of a few thousand instances at once, and so many bytes: each
// event of a deployment tells all groups twice.
const (
	maxPendingFrames = 8192
	maxPendingBytes  = 64 << 20
)

// eventStream is one reader. types are those it wants, none for all.
type eventStream struct {
	types map[string]bool
	// withoutGroups streams want plans without their groups.
	withoutGroups bool
	frames        chan []byte // closed when the reader is too slow
	pendingBytes  atomic.Int64
}

// Publish tells what happened at that time.
func (b *EventBus) Publish(at time.Time, events ...deploy.BusEvent) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.streams) == 0 {
		return nil
	}
	for _, told := range events {
		for _, ev := range withLegacyForm(told) {
			if err := b.sendEvent(ev, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendEvent writes an event for the streams that want it, in their form.
func (b *EventBus) sendEvent(ev deploy.BusEvent, at time.Time) error {
	forms := map[bool]deploy.BusEvent{false: ev, true: ev}
	if p, ok := ev.(deploy.PlanEvent); ok {
		forms[true] = p.WithoutGroups()
	}
	for light, form := range forms {
		var text []byte
		for s := range b.streams {
			if s.withoutGroups != light || len(s.types) > 0 && !s.types[ev.EventType()] {
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

// sendFrame cuts off a stream that is too far behind: it could not know what it
// has missed. A single event is never too much.
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

func (b *EventBus) addStream(types []string, light bool) *eventStream {
	s := &eventStream{types: map[string]bool{}, withoutGroups: light, frames: make(chan []byte, maxPendingFrames)}
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

// CloseStreams cuts all streams off: nothing more is published here.
func (b *EventBus) CloseStreams() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.streams {
		delete(b.streams, s)
		close(s.frames)
	}
}
