package master

import (
	"context"
	"errors"
	"time"
)

var errSilent = errors.New("the master has been silent for too long")

// watchdog cancels a session whose master says nothing, not even a heartbeat.
type watchdog struct {
	limit time.Duration
	timer *time.Timer
}

func newWatchdog(limit time.Duration, cancel context.CancelCauseFunc) *watchdog {
	return &watchdog{limit: limit, timer: time.AfterFunc(limit, func() { cancel(errSilent) })}
}

// interval takes the heartbeat interval that the master announced.
func (w *watchdog) interval(seconds float64) {
	if seconds > 0 {
		w.limit = time.Duration(missedHeartbeats * seconds * float64(time.Second))
	}
}

// heard starts the time anew, at each event; hold stops it until then.
func (w *watchdog) heard() { w.timer.Reset(w.limit) }
func (w *watchdog) hold()  { w.timer.Stop() }

func (w *watchdog) stop() { w.timer.Stop() }
