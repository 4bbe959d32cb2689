package agent

import (
	"context"
	"net/http"

	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/mesosapi"
)

// errStopped is the error for callers before the agent is ready and after it
// has stopped.
var errStopped = mesosapi.Errorf(http.StatusServiceUnavailable, "the agent does not run")

// eventLoop is a queue of functions that one goroutine runs in order. Only that
// goroutine accesses the agent's state, so the state needs no lock.
type eventLoop struct {
	queue link.CallQueue
	wake  chan struct{}
	done  chan struct{}
}

func newLoop() *eventLoop { return &eventLoop{wake: make(chan struct{}, 1), done: make(chan struct{})} }

// post queues f and never blocks. After closeQueue it does nothing.
func (l *eventLoop) post(f func()) {
	if l.queue.Post(f) {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// askLoop runs f on the loop and returns its results.
func askLoop[T any](ctx context.Context, l *eventLoop, f func() (T, error)) (T, error) {
	var v T
	answer := make(chan error, 1)
	l.post(func() {
		var err error
		v, err = f()
		answer <- err
	})
	var none T
	select {
	case err := <-answer:
		return v, err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	case <-l.done:
		return none, errStopped
	}
}

// doOnLoop runs f on the loop and returns its error.
func doOnLoop(ctx context.Context, l *eventLoop, f func() error) error {
	_, err := askLoop(ctx, l, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// closeQueue makes the loop reject all further functions.
func (l *eventLoop) closeQueue() {
	l.queue.Close()
	close(l.done)
}
