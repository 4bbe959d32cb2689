package agent

import (
	"context"
	"errors"
	"sync"
)

// errStopped is the answer to whom the agent cannot serve any more, or not
// yet.
var errStopped = errors.New("the agent does not run")

// eventLoop is the queue of what one goroutine does, in order: it alone touches
// the agent's state, so that nothing there needs a lock and nothing is called
// with one held.
type eventLoop struct {
	mu    sync.Mutex
	queue []func()
	ended bool
	wake  chan struct{}
	done  chan struct{}
}

func newLoop() *eventLoop { return &eventLoop{wake: make(chan struct{}, 1), done: make(chan struct{})} }

// post queues f and never blocks. After end it does nothing.
func (l *eventLoop) post(f func()) {
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

// askLoop runs f on the loop and waits for what it returns.
func askLoop[T any](ctx context.Context, l *eventLoop, f func() T) (T, error) {
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

// runQueued does what is queued. It returns once nothing is.
func (l *eventLoop) runQueued() {
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

// closeQueue refuses everything from now on.
func (l *eventLoop) closeQueue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.queue = nil
	close(l.done)
}
