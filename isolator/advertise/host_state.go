package advertise

import (
	"context"
	"sync"

	"mesos-gpu/gpu"
)

// hostState has the latest state of the host. Setting a state never waits for
// an agent, and reading always returns the latest one.
type hostState struct {
	mu   sync.Mutex
	host gpu.Host
	// changed has one token if the state has changed since it was last read.
	changed chan struct{}
}

func newHostState(h gpu.Host) *hostState { return &hostState{host: h, changed: make(chan struct{}, 1)} }

// followHosts stores states until the channel is closed or ctx ends.
func (s *hostState) followHosts(ctx context.Context, hosts <-chan gpu.Host) {
	for {
		select {
		case h, more := <-hosts:
			if !more {
				return
			}
			s.setHost(h)
		case <-ctx.Done():
			return
		}
	}
}

func (s *hostState) setHost(h gpu.Host) {
	s.mu.Lock()
	s.host = h
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *hostState) latestHost() gpu.Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host
}
