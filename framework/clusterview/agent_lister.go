package clusterview

import (
	"context"
	"sync"
	"time"

	"mesos-gpu/framework/master"
)

// AgentLister lists a master's agents with one request at a time, however many
// clients need the list. A client that arrives while a request is running shares the
// next one, which starts after its arrival. No list is older than the client's
// request, except for later pages of a list.
type AgentLister struct {
	// mu protects all fields.
	mu sync.Mutex
	// next is the listing that has not started yet, or nil; running
	// is the latest listing, for which a new one waits.
	next, running *agentListing
	// recentResult is the last successful listing, which ended at recentResultAt.
	recentResult   *agentListing
	recentResultAt time.Time
}

// listingLifetime is how long a result is used for the later pages of a list. A
// master takes tenths of a second to list thousands of agents.
const listingLifetime = 10 * time.Second

// agentListing is one request to the master and its result.
type agentListing struct {
	// previous is the listing that must end before this one starts; nil for none. Only the client that runs the request
	// uses it.
	previous *agentListing
	// done is closed when the result is there. The fields below are set before, and never modified later.
	done   chan struct{}
	agents []master.ListedAgent
	// err is why there is no list.
	err error
	// requesterLeft is set if the client that ran the request disconnected meanwhile; the others retry.
	requesterLeft bool
}

// listAgents returns the result of list, called for this client or for another one. A request for a later page may get
// the recent listing. The caller must not modify the result.
func (s *AgentLister) listAgents(ctx context.Context, laterPage bool, list func(context.Context) ([]master.ListedAgent, error)) ([]master.ListedAgent, error) {
	if r := s.recentListing(); r != nil && laterPage {
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

// storeListing remembers the listing as the most recent one, if it succeeded.
func (s *AgentLister) storeListing(r *agentListing) {
	if r.err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recentResult, s.recentResultAt = r, time.Now()
}

// recentListing returns the most recent listing, nil if it is too old.
func (s *AgentLister) recentListing() *agentListing {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recentResult == nil || time.Since(s.recentResultAt) > listingLifetime {
		return nil
	}
	return s.recentResult
}

// joinListing returns the next listing. The first client that joins it runs the request.
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

// startListing waits until the previous listing is done. Clients that arrive later
// join the next listing. It waits even if its own client has left: others may have joined, and one of them runs the
// next request.
func (s *AgentLister) startListing(r *agentListing) {
	if r.previous != nil {
		<-r.previous.done
		r.previous = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = nil
}
