package link

import "sync"

// CallQueue is a queue of functions, which one goroutine at a time runs in
// order.
type CallQueue struct {
	mu     sync.Mutex
	calls  []func()
	busy   bool // RunCalls runs, or the caller of Post has been told to start it
	closed bool
}

// Post queues a call. It never blocks; after Close it does nothing. If start is
// true, the caller must ensure that RunCalls is called.
func (q *CallQueue) Post(call func()) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.calls = append(q.calls, call)
	start = !q.busy
	q.busy = true
	return start
}

// RunCalls runs the queued calls until the queue is empty.
func (q *CallQueue) RunCalls() {
	for call := q.takeCall(); call != nil; call = q.takeCall() {
		call()
	}
}

func (q *CallQueue) takeCall() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.calls) == 0 {
		q.busy = false
		return nil
	}
	call := q.calls[0]
	q.calls = q.calls[1:]
	return call
}

// Close drops the calls that have not begun.
func (q *CallQueue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.calls = nil
}
