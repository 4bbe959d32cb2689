package api

import (
	"sync"
	"time"

	"mesos-gpu/marathon/deploy"
)

// Bus carries events to the streams that are open. Publishing never waits.
type Bus struct {
	mu      sync.Mutex
	streams map[*stream]bool
}

// NewBus has no streams yet.
func NewBus() *Bus { return &Bus{streams: map[*stream]bool{}} }

// outstanding is how many events a stream may be behind before it is cut off:
// those of a deployment of a few thousand instances at once.
const outstanding = 8192

// stream is one reader. types are those it wants, none for all.
type stream struct {
	types  map[string]bool
	frames chan []byte // closed when the reader is too slow
}

// Publish tells what happened at that time.
func (b *Bus) Publish(at time.Time, events ...deploy.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.streams) == 0 {
		return nil
	}
	for _, told := range events {
		for _, ev := range both(told) {
			text, err := frame(ev, at)
			if err != nil {
				return err
			}
			for s := range b.streams {
				b.offer(s, ev.EventType(), text)
			}
		}
	}
	return nil
}

// offer cuts off a stream that is too far behind: it could not know what it
// has missed.
func (b *Bus) offer(s *stream, kind string, text []byte) {
	if len(s.types) > 0 && !s.types[kind] {
		return
	}
	select {
	case s.frames <- text:
	default:
		delete(b.streams, s)
		close(s.frames)
	}
}

func (b *Bus) attach(types []string) *stream {
	s := &stream{types: map[string]bool{}, frames: make(chan []byte, outstanding)}
	for _, t := range types {
		s.types[t] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.streams[s] = true
	return s
}

func (b *Bus) detach(s *stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.streams, s)
}

// Hangup cuts all streams off: nothing more is published here.
func (b *Bus) Hangup() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.streams {
		delete(b.streams, s)
		close(s.frames)
	}
}
