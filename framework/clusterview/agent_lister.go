package clusterview

import (
	"context"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
)

// AgentLister asks a master one question at a time, however many people want to
// know. Who comes while one is under way shares the answer to the next, which
// is asked after they came: no answer is older than its request, unless it goes
// on in a list.
type AgentLister struct {
	mu sync.Mutex
	// next has not been asked yet, nil if none is to be; last was begun last.
	next, running *agentListing
	// recentResult was answered last, and at that time.
	recentResult   *agentListing
	recentResultAt time.Time
}

// listingLifetime is how long an answer will do for the pages of a list after the
// first. A real master takes tenths of a second for thousands of agents.
const listingLifetime = 10 * time.Second

type agentListing struct {
	previous      *agentListing
	done          chan struct{}
	agents        []master.ListedAgent // never modified
	err           error
	requesterLeft bool // who asked went away
}

// listAgents returns what list does, of this requester or of another.
func (s *AgentLister) listAgents(ctx context.Context, list func(context.Context) ([]master.ListedAgent, error)) ([]master.ListedAgent, error) {
	if r := s.recentListing(); r != nil && api.IsContinuation(ctx) {
		return r.agents, nil
	}
	for {
		r, first := s.joinListing()
		if first {
			s.startListing(r)
			r.agents, r.err = list(ctx)
			r.requesterLeft = ctx.Err() != nil
			s.storeListing(r)
			close(r.done)
			return r.agents, r.err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if !r.requesterLeft {
			return r.agents, r.err
		}
	}
}

// storeListing keeps what a round has brought.
func (s *AgentLister) storeListing(r *agentListing) {
	if r.err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recentResult, s.recentResultAt = r, time.Now()
}

// recentListing is a round that was answered a moment ago, nil if none was.
func (s *AgentLister) recentListing() *agentListing {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recentResult == nil || time.Since(s.recentResultAt) > listingLifetime {
		return nil
	}
	return s.recentResult
}

// joinListing is the round to come. Its first requester asks for all.
func (s *AgentLister) joinListing() (r *agentListing, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		return s.next, false
	}
	s.next = &agentListing{previous: s.running, done: make(chan struct{})}
	s.running = s.next
	return s.next, true
}

// startListing waits until it is the round's turn. Who comes later is of the next.
func (s *AgentLister) startListing(r *agentListing) {
	if r.previous != nil {
		<-r.previous.done
		r.previous = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = nil
}
