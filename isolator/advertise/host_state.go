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
func (b *hostState) followHosts(ctx context.Context, hosts <-chan gpu.Host) {
	for {
		select {
		case h, more := <-hosts:
			if !more {
				return
			}
			b.setHost(h)
		case <-ctx.Done():
			return
		}
	}
}

func (b *hostState) setHost(h gpu.Host) {
	b.mu.Lock()
	b.host = h
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *hostState) latestHost() gpu.Host {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.host
}
