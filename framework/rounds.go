package framework

import (
	"context"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
)

// rounds asks a master one question at a time, however many people want to
// know. Who comes while one is under way shares the answer to the next, which
// is asked after they came: no answer is older than its request, unless it goes
// on in a list.
type rounds struct {
	mu sync.Mutex
	// next has not been asked yet, nil if none is to be; last was begun last.
	next, last *round
	// told was answered last, and at that time.
	told   *round
	toldAt time.Time
}

// roundKept is how long an answer will do for the pages of a list after the
// first. A real master takes tenths of a second for thousands of agents.
const roundKept = 10 * time.Second

type round struct {
	after  *round
	done   chan struct{}
	agents []master.Agent // nobody changes them
	err    error
	left   bool // who asked went away
}

// ask returns what list does, of this requester or of another.
func (s *rounds) ask(ctx context.Context, list func(context.Context) ([]master.Agent, error)) ([]master.Agent, error) {
	if r := s.recent(); r != nil && api.Continues(ctx) {
		return r.agents, nil
	}
	for {
		r, first := s.join()
		if first {
			s.begin(r)
			r.agents, r.err = list(ctx)
			r.left = ctx.Err() != nil
			s.tell(r)
			close(r.done)
			return r.agents, r.err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if !r.left {
			return r.agents, r.err
		}
	}
}

// tell keeps what a round has brought.
func (s *rounds) tell(r *round) {
	if r.err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told, s.toldAt = r, time.Now()
}

// recent is a round that was answered a moment ago, nil if none was.
func (s *rounds) recent() *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == nil || time.Since(s.toldAt) > roundKept {
		return nil
	}
	return s.told
}

// join is the round to come. Its first requester asks for all.
func (s *rounds) join() (r *round, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		return s.next, false
	}
	s.next = &round{after: s.last, done: make(chan struct{})}
	s.last = s.next
	return s.next, true
}

// begin waits until it is the round's turn. Who comes later is of the next.
func (s *rounds) begin(r *round) {
	if r.after != nil {
		<-r.after.done
		r.after = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = nil
}
