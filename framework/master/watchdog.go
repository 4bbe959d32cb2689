package master

import (
	"context"
	"errors"
	"time"
)

// errMasterSilent ends a session whose watchdog has fired.
var errMasterSilent = errors.New("the master has been silent for too long")

// heartbeatWatchdog cancels a session whose master sends nothing, not even
// heartbeats.
type heartbeatWatchdog struct {
	// limit is how long the master may send nothing; timer fires then. Each event restarts it.
	limit time.Duration
	timer *time.Timer
}

// newHeartbeatWatchdog returns a watchdog that runs. It cancels by cancel.
func newHeartbeatWatchdog(limit time.Duration, cancel context.CancelCauseFunc) *heartbeatWatchdog {
	return &heartbeatWatchdog{limit: limit, timer: time.AfterFunc(limit, func() { cancel(errMasterSilent) })}
}

// setInterval sets the interval that the master announced. It takes effect with the next restart.
func (w *heartbeatWatchdog) setInterval(seconds float64) {
	if seconds > 0 {
		w.limit = time.Duration(maxMissedHeartbeats * seconds * float64(time.Second))
	}
}

// restart restarts the timer after an event; suspend stops it until then.
func (w *heartbeatWatchdog) restart() { w.timer.Reset(w.limit) }
func (w *heartbeatWatchdog) suspend() { w.timer.Stop() }

func (w *heartbeatWatchdog) stop() { w.timer.Stop() }
