package notification

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"mesos-gpu/internal/backoff"
)

// RetrySchedule is when failed deliveries are tried again.
type RetrySchedule struct {
	// First is the pause after the first failure. Pauses double up to Longest.
	First, Longest time.Duration
	// MaxAttempts limits the attempts of a round, GiveUpAfter the time since its start. The delivery is given up when
	// either is reached.
	MaxAttempts int
	GiveUpAfter time.Duration
}

// DefaultRetrySchedule returns the schedule for operators that configure none: a day in 30 attempts.
func DefaultRetrySchedule() RetrySchedule {
	return RetrySchedule{First: 10 * time.Second, Longest: time.Hour, MaxAttempts: 30, GiveUpAfter: 24 * time.Hour}
}

// jitter is the part of a pause by which it varies.
const jitter = 0.2

// NextAttempt returns when a delivery that failed at now is tried again; zero if it is given up. The pause varies by up
// to a fifth with the id and the attempt, so that deliveries that fail together are not tried again together.
func (s *RetrySchedule) NextAttempt(n *Notification, now time.Time) time.Time {
	failed := n.Attempts + 1
	start := n.RoundStart
	if start.IsZero() {
		start = n.Time
	}
	if failed >= s.MaxAttempts {
		return time.Time{}
	}
	pause := backoff.Delay(s.First, s.Longest, n.Attempts)
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", n.ID, n.Round, failed))
	fraction := float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32) // 0 to 1
	next := now.Add(time.Duration(float64(pause) * (1 - jitter + 2*jitter*fraction)))
	if next.Sub(start) > s.GiveUpAfter {
		return time.Time{}
	}
	return next
}
