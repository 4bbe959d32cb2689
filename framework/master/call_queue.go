package master

import (
	"sync"
	"time"

	"mesos-gpu/framework/sched"
)

// callQueue stores operations in the order they were posted, until the session
// sends them at a limited rate. If the rate is exceeded, calls that tasks wait
// for are sent before calls that only adjust the offers.
type callQueue struct {
	// mu protects all fields but wake.
	mu sync.Mutex
	// urgentCalls and otherCalls are the calls to send, in the order of posting each.
	urgentCalls, otherCalls []queuedCall
	// count is the number of all calls ever posted.
	count int
	// rate limits the calls that are sent.
	rate tokenBucket
	// wake has an element if calls were posted since the sender last looked.
	wake chan struct{}
}

// queuedCall is an operation and its position in the order of posting, by which dequeue chooses between the two lists.
type queuedCall struct {
	op       sched.Operation
	position int
}

func newCallQueue(rate float64) *callQueue {
	return &callQueue{rate: newTokenBucket(rate), wake: make(chan struct{}, 1)}
}

// isUrgent reports whether a task waits for the call. Urgent and other calls
// each keep their order. They are independent of each other: an offer is
// either accepted or declined.
func isUrgent(op sched.Operation) bool {
	switch op.(type) {
	case sched.AcceptOffers, sched.KillTask, sched.ShutdownExecutor, sched.AcknowledgeUpdate, sched.AcknowledgeOperation:
		return true
	default:
		return false
	}
}

// enqueue adds an operation and wakes the sender. Nothing limits the length: no operation may be lost
// while the session lasts.
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

// dequeue returns the next operation that may be sent at now, while calls for the agents in inFlight are made. Only one
// call for each agent is made at a time, and a call without an agent, in inFlight as "", is made alone. If no operation may
// be sent, op is nil and wait is the time until the next attempt; zero means after the next enqueue or the end of a call.
func (q *callQueue) dequeue(now time.Time, inFlight map[string]bool) (op sched.Operation, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list, wait := q.nextList(now)
	if list == nil {
		return nil, wait
	}
	op = (*list)[0].op
	if agent := agentOf(op); inFlight[agent] || inFlight[""] || agent == "" && len(inFlight) > 0 {
		return nil, 0
	}
	q.rate.tokens--
	(*list)[0] = queuedCall{} // for the garbage collector
	*list = (*list)[1:]
	return op, 0
}

// agentOf returns the agent to which an urgent call is directed, "" for others.
func agentOf(op sched.Operation) string {
	switch o := op.(type) {
	case sched.AcceptOffers:
		return o.AgentID
	case sched.KillTask:
		return o.AgentID
	case sched.ShutdownExecutor:
		return o.AgentID
	case sched.AcknowledgeUpdate:
		return o.AgentID
	case sched.AcknowledgeOperation:
		return o.AgentID
	default:
		return ""
	}
}

// nextList returns the list whose first call may be sent at now, or nil and
// the time until the next attempt. Other calls leave half of the bucket to
// urgent ones: below the rate all calls keep their order, above it urgent ones
// overtake.
func (q *callQueue) nextList(now time.Time) (*[]queuedCall, time.Duration) {
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
	return list, 0
}

// tokenBucket limits a rate. It gains rate tokens a second, up to size.
type tokenBucket struct {
	// rate is in tokens per second. tokens are left at the time at, at most size.
	rate, size, tokens float64
	at                 time.Time
}

// newTokenBucket returns a full bucket that allows a burst of one second.
func newTokenBucket(rate float64) tokenBucket {
	return tokenBucket{rate: rate, size: max(rate, 2), tokens: max(rate, 2)}
}

// waitForToken returns the time until a token can be taken so that reserve
// tokens remain.
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
