package api

import (
	"sync"
	"sync/atomic"
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

// A stream may be so many events behind before it is cut off, those of a
// deployment of a few thousand instances at once, and so many bytes: each
// event of a deployment tells all groups twice.
const (
	outstanding      = 8192
	outstandingBytes = 64 << 20
)

// stream is one reader. types are those it wants, none for all.
type stream struct {
	types map[string]bool
	// light streams want plans without their groups.
	light  bool
	frames chan []byte // closed when the reader is too slow
	behind atomic.Int64
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
			if err := b.each(ev, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// each writes an event for the streams that want it, in their form.
func (b *Bus) each(ev deploy.Event, at time.Time) error {
	forms := map[bool]deploy.Event{false: ev, true: ev}
	if p, ok := ev.(deploy.Planned); ok {
		forms[true] = p.Light()
	}
	for light, form := range forms {
		var text []byte
		for s := range b.streams {
			if s.light != light || len(s.types) > 0 && !s.types[ev.EventType()] {
				continue
			}
			if text == nil {
				var err error
				if text, err = frame(form, at); err != nil {
					return err
				}
			}
			b.offer(s, text)
		}
	}
	return nil
}

// offer cuts off a stream that is too far behind: it could not know what it
// has missed. A single event is never too much.
func (b *Bus) offer(s *stream, text []byte) {
	if s.behind.Load() <= outstandingBytes {
		select {
		case s.frames <- text:
			s.behind.Add(int64(len(text)))
			return
		default:
		}
	}
	delete(b.streams, s)
	close(s.frames)
}

func (b *Bus) attach(types []string, light bool) *stream {
	s := &stream{types: map[string]bool{}, light: light, frames: make(chan []byte, outstanding)}
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
