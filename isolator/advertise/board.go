package advertise

import (
	"context"
	"sync"

	"mesos-gpu/gpu"
)

// board shows the newest state of the host, so that who brings a state never
// waits for an agent, and who reads never gets an old one.
type board struct {
	mu   sync.Mutex
	host gpu.Host
	// changed has one token where a state came that nobody has looked at.
	changed chan struct{}
}

func newBoard(h gpu.Host) *board { return &board{host: h, changed: make(chan struct{}, 1)} }

// follow takes states until there are no more or ctx ends.
func (b *board) follow(ctx context.Context, hosts <-chan gpu.Host) {
	for {
		select {
		case h, more := <-hosts:
			if !more {
				return
			}
			b.put(h)
		case <-ctx.Done():
			return
		}
	}
}

func (b *board) put(h gpu.Host) {
	b.mu.Lock()
	b.host = h
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *board) newest() gpu.Host {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.host
}
