package master

import "sync"

// callQueue delivers calls to one agent in order. Its goroutine runs only while
// calls are queued.
type callQueue struct {
	workers *sync.WaitGroup
	mu      sync.Mutex
	queue   []func()
	busy    bool
	closed  bool
}

// postCall queues a call. It never blocks; after close it does nothing.
func (b *callQueue) postCall(call func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.queue = append(b.queue, call)
	if !b.busy {
		b.busy = true
		b.workers.Go(b.deliverCalls)
	}
}

func (b *callQueue) deliverCalls() {
	for {
		b.mu.Lock()
		if len(b.queue) == 0 {
			b.busy = false
			b.mu.Unlock()
			return
		}
		call := b.queue[0]
		b.queue = b.queue[1:]
		b.mu.Unlock()
		call()
	}
}

// close drops undelivered calls.
func (b *callQueue) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.queue = nil
}
