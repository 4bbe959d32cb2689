package master

import (
	"sync"

	"mesos-gpu/framework/sched"
)

// queue holds operations in the order they were posted, until the session's
// sender takes them.
type queue struct {
	mu   sync.Mutex
	ops  []sched.Op
	wake chan struct{}
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) add(op sched.Op) {
	q.mu.Lock()
	q.ops = append(q.ops, op)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) take() []sched.Op {
	q.mu.Lock()
	defer q.mu.Unlock()
	ops := q.ops
	q.ops = nil
	return ops
}
