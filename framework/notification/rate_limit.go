package notification

import (
	"maps"
	"time"
)

// RateWindow is the time over which mails to a recipient are counted.
const RateWindow = time.Hour

// RateLimiter limits the mails to each recipient within RateWindow. The last one that is allowed is a digest of what is
// pending.
type RateLimiter struct {
	// PerWindow is the limit.
	PerWindow int
	// sent are the times of the mails within the window, oldest first, by recipient. Remaining removes older ones of the
	// recipient that it is called for, CountSent recipients without mails in the window, once in each window.
	sent   map[string][]time.Time
	pruned time.Time
}

// Remaining returns how many mails the recipient may still get now. If there are none, next is when there is one.
func (l *RateLimiter) Remaining(to string, now time.Time) (n int, next time.Time) {
	times := l.sent[to]
	for len(times) > 0 && now.Sub(times[0]) >= RateWindow {
		times = times[1:]
	}
	if len(times) == 0 {
		delete(l.sent, to)
	} else {
		l.sent[to] = times
	}
	if n = l.PerWindow - len(times); n > 0 {
		return n, time.Time{}
	}
	return 0, times[len(times)-l.PerWindow].Add(RateWindow)
}

// CountSent counts a mail to the recipient.
func (l *RateLimiter) CountSent(to string, now time.Time) {
	if l.sent == nil {
		l.sent = map[string][]time.Time{}
	}
	if now.Sub(l.pruned) >= RateWindow {
		l.pruned = now
		maps.DeleteFunc(l.sent, func(_ string, times []time.Time) bool { return now.Sub(times[len(times)-1]) >= RateWindow })
	}
	l.sent[to] = append(l.sent[to], now)
}
