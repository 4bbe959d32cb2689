package client

import (
	"sync"
	"time"
)

// lostNoticeDelay is how long a broken stream may take to reconnect, for example to the
// next leader, before it is reported.
const lostNoticeDelay = time.Second

// ConnectionObserver reports lost connections of streams that are followed. It is called
// with the cause when streams have been broken for a second while the client retries, and
// with nil when one of them continues. Calls do not overlap.
type ConnectionObserver func(cause error)

// ObserveConnection sets the observer of FollowEvents, WaitForJob and ReadTaskOutput. It replaces an earlier one; nil removes it.
func (c *Client) ObserveConnection(report ConnectionObserver) { c.connection.setObserver(report) }

// connectionWatch combines the failures of several streams into one report. Its zero value
// reports nothing.
type connectionWatch struct {
	// mu protects all fields. report is called under it, so that calls do not overlap.
	mu     sync.Mutex
	report ConnectionObserver
	// timer runs from the first failure until the report; nil otherwise.
	timer *time.Timer
	// cause is the cause of the latest failure.
	cause error
	// reported is set from the report of a failure until that of the success.
	reported bool
}

// setObserver replaces the observer, which gets no report of earlier failures.
func (w *connectionWatch) setObserver(report ConnectionObserver) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report = report
	w.stopTimer()
	w.reported = false
}

// recordFailure records that a stream is broken and will be retried.
func (w *connectionWatch) recordFailure(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cause = cause
	if w.report == nil || w.timer != nil || w.reported {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(lostNoticeDelay, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.timer == timer {
			w.timer, w.reported = nil, true
			w.report(w.cause)
		}
	})
	w.timer = timer
}

// recordSuccess records that a stream is open.
func (w *connectionWatch) recordSuccess() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopTimer()
	if w.reported {
		w.reported = false
		w.report(nil)
	}
}

// stopTimer cancels a report. The caller holds mu.
func (w *connectionWatch) stopTimer() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}
