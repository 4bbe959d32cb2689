package master

import (
	"sync"
	"time"

	"mesos-gpu/framework/sched"
)

// queue holds operations in the order they were posted, until the session's
// sender takes them at a bounded rate. Where the rate is short, what tasks
// wait for goes before what only tunes the offers.
type queue struct {
	mu              sync.Mutex
	urgent, patient []posted
	count           int // of all ever posted
	rate            bucket
	wake            chan struct{}
}

// posted is an operation and its place among all.
type posted struct {
	op    sched.Op
	place int
}

func newQueue(rate float64) *queue {
	return &queue{rate: newBucket(rate), wake: make(chan struct{}, 1)}
}

// urgent reports whether a task waits for the call. Each kind keeps its order
// and neither needs the other's: an offer is either accepted or declined.
func urgent(op sched.Op) bool {
	switch op.(type) {
	case sched.Accept, sched.KillTask, sched.Acknowledge, sched.AcknowledgeOperation:
		return true
	default:
		return false
	}
}

func (q *queue) add(op sched.Op) {
	q.mu.Lock()
	q.count++
	list := &q.patient
	if urgent(op) {
		list = &q.urgent
	}
	*list = append(*list, posted{op, q.count})
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next takes the next operation that may be sent at now. Else op is nil, and
// wait is when to ask again; zero is after the next add.
func (q *queue) next(now time.Time) (op sched.Op, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list, reserve := &q.patient, q.rate.size/2
	switch {
	case len(q.urgent) == 0 && len(q.patient) == 0:
		return nil, 0
	case len(q.patient) == 0,
		len(q.urgent) > 0 && (q.urgent[0].place < q.patient[0].place || q.rate.until(now, reserve) > 0):
		list, reserve = &q.urgent, 0
	}
	if wait := q.rate.until(now, reserve); wait > 0 {
		return nil, wait
	}
	q.rate.take()
	op = (*list)[0].op
	(*list)[0] = posted{} // for the collector
	*list = (*list)[1:]
	return op, 0
}

// bucket bounds a rate: it fills with so many tokens a second, up to size.
type bucket struct {
	rate, size, tokens float64
	at                 time.Time
}

// newBucket allows one second's worth at once.
func newBucket(rate float64) bucket {
	return bucket{rate: rate, size: max(rate, 2), tokens: max(rate, 2)}
}

// until is how long to wait before a token can be taken that leaves reserve.
func (b *bucket) until(now time.Time, reserve float64) time.Duration {
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

func (b *bucket) take() { b.tokens-- }
