package master

import (
	"context"
	"errors"
	"time"
)

var errSilent = errors.New("the master has been silent for too long")

// watchdog cancels a session whose master says nothing, not even a heartbeat.
type watchdog struct {
	cancel context.CancelCauseFunc
	limit  time.Duration
	timer  *time.Timer
}

func newWatchdog(limit time.Duration, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{cancel: cancel, limit: limit}
	w.timer = time.AfterFunc(limit, func() { cancel(errSilent) })
	return w
}

// interval takes the heartbeat interval that the master announced.
func (w *watchdog) interval(seconds float64) {
	if seconds > 0 {
		w.limit = time.Duration(missedHeartbeats * seconds * float64(time.Second))
	}
}

// heard is called at each event.
func (w *watchdog) heard() { w.timer.Reset(w.limit) }

func (w *watchdog) stop() { w.timer.Stop() }
