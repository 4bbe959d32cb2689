package master

import (
	"sync"
	"time"

	"mesos-gpu/framework/sched"
)

// callQueue holds operations in the order they were posted, until the session's
// sender takes them at a bounded rate. Where the rate is short, what tasks
// wait for goes before what only tunes the offers.
type callQueue struct {
	mu                      sync.Mutex
	urgentCalls, otherCalls []queuedCall
	count                   int // of all ever posted
	rate                    tokenBucket
	wake                    chan struct{}
}

// queuedCall is an operation and its place among all.
type queuedCall struct {
	op       sched.Operation
	position int
}

func newCallQueue(rate float64) *callQueue {
	return &callQueue{rate: newTokenBucket(rate), wake: make(chan struct{}, 1)}
}

// isUrgent reports whether a task waits for the call. Each kind keeps its order
// and neither needs the other's: an offer is either accepted or declined.
func isUrgent(op sched.Operation) bool {
	switch op.(type) {
	case sched.AcceptOffers, sched.KillTask, sched.AcknowledgeUpdate, sched.AcknowledgeOperation:
		return true
	default:
		return false
	}
}

func (q *callQueue) enqueue(op sched.Operation) {
	q.mu.Lock()
	q.count++
	list := &q.otherCalls
	if isUrgent(op) {
		list = &q.urgentCalls
	}
	*list = append(*list, queuedCall{op, q.count})
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// dequeue takes the next operation that may be sent at now. Else op is nil, and
// wait is when to ask again; zero is after the next add.
func (q *callQueue) dequeue(now time.Time) (op sched.Operation, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list, reserve := &q.otherCalls, q.rate.size/2
	switch {
	case len(q.urgentCalls) == 0 && len(q.otherCalls) == 0:
		return nil, 0
	case len(q.otherCalls) == 0,
		len(q.urgentCalls) > 0 && (q.urgentCalls[0].position < q.otherCalls[0].position || q.rate.waitForToken(now, reserve) > 0):
		list, reserve = &q.urgentCalls, 0
	}
	if wait := q.rate.waitForToken(now, reserve); wait > 0 {
		return nil, wait
	}
	q.rate.takeToken()
	op = (*list)[0].op
	(*list)[0] = queuedCall{} // for the collector
	*list = (*list)[1:]
	return op, 0
}

// tokenBucket bounds a rate: it fills with so many tokens a second, up to size.
type tokenBucket struct {
	rate, size, tokens float64
	at                 time.Time
}

// newTokenBucket allows one second's worth at once.
func newTokenBucket(rate float64) tokenBucket {
	return tokenBucket{rate: rate, size: max(rate, 2), tokens: max(rate, 2)}
}

// waitForToken is how long to wait before a token can be taken that leaves reserve.
func (b *tokenBucket) waitForToken(now time.Time, reserve float64) time.Duration {
	if gone := now.Sub(b.at).Seconds(); gone > 0 {
		if !b.at.IsZero() {
			b.tokens = min(b.size, b.tokens+gone*b.rate)
		}
		b.at = now
	}
	short := reserve + 1 - b.tokens
	if short <= 0 {
		return 0
	}
	return time.Duration(short/b.rate*float64(time.Second)) + 1
}

func (b *tokenBucket) takeToken() { b.tokens-- }
