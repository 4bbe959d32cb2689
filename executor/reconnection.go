package executor

import (
	"time"

	"mesos-gpu/internal/backoff"
)

const backoffMin = 100 * time.Millisecond

// reconnection decides when an executor subscribes again, and when its agent is
// lost.
type reconnection struct {
	// checkpoint, recoveryTimeout and backoffMax are as in ExecutorConfig.
	checkpoint      bool
	recoveryTimeout time.Duration
	backoffMax      time.Duration
	// random returns a random duration from 0 to below its argument.
	random func(below time.Duration) time.Duration

	// lost is when the agent was last there, at first when the executor started.
	lost time.Time
	// ever is whether the executor was subscribed at least once.
	ever bool
	// attempts counts the attempts to subscribe that failed in a row.
	attempts int
}

// nextPause returns the pause before the next attempt to subscribe. subscribed
// is whether the last one had succeeded, before the connection broke. A pause
// of 0 means that the agent is lost: it was away for as long as patience allows.
func (r *reconnection) nextPause(now time.Time, subscribed bool) (pause, patience time.Duration) {
	if subscribed {
		r.ever, r.lost, r.attempts = true, now, 0
	}
	patience = r.maxAgentAbsence()
	left := patience - now.Sub(r.lost)
	pause = max(0, min(left, r.backoff(r.attempts)))
	r.attempts++
	return pause, patience
}

// maxAgentAbsence returns how long the agent may be unreachable. An agent
// without checkpointing does not take its executors back after a restart, so
// once ever is set it may not be away at all.
func (r *reconnection) maxAgentAbsence() time.Duration {
	switch {
	case r.checkpoint:
		return r.recoveryTimeout
	case r.ever:
		return 0
	default:
		return firstContactTimeout
	}
}

// backoff returns the pause before the next attempt. It doubles with each
// attempt up to the agent's limit; its upper half is random, so that executors
// do not all reconnect to a restarted agent at the same moment.
func (r *reconnection) backoff(attempt int) time.Duration {
	d := min(backoff.Delay(backoffMin, r.backoffMax, attempt), r.backoffMax)
	return d/2 + r.random(d/2+1)
}
