package agent

import (
	"context"
	"errors"
	"sync"
)

// errStopped is the answer to whom the agent cannot serve any more, or not
// yet.
var errStopped = errors.New("the agent does not run")

// loop is the queue of what one goroutine does, in order: it alone touches
// the agent's state, so that nothing there needs a lock and nothing is called
// with one held.
type loop struct {
	mu    sync.Mutex
	queue []func()
	ended bool
	wake  chan struct{}
	done  chan struct{}
}

func newLoop() *loop { return &loop{wake: make(chan struct{}, 1), done: make(chan struct{})} }

// post queues f and never blocks. After end it does nothing.
func (l *loop) post(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.queue = append(l.queue, f)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// ask runs f on the loop and waits for what it returns.
func ask[T any](ctx context.Context, l *loop, f func() T) (T, error) {
	answer := make(chan T, 1)
	l.post(func() { answer <- f() })
	var none T
	select {
	case v := <-answer:
		return v, nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	case <-l.done:
		return none, errStopped
	}
}

// run does what is queued. It returns once nothing is.
func (l *loop) run() {
	for {
		l.mu.Lock()
		queue := l.queue
		l.queue = nil
		l.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, f := range queue {
			f()
		}
	}
}

// end refuses everything from now on.
func (l *loop) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.queue = nil
	close(l.done)
}
