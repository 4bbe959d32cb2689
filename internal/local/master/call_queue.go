package master

import "sync"

// callQueue delivers calls to one agent, in order and one at a time, on a
// goroutine that lives only while there is something to deliver.
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

// close drops what was not yet delivered.
func (b *callQueue) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.queue = nil
}
