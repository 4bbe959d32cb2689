// Package backoff has the pauses between attempts that double. It is pure: callers add what is random.
package backoff

import "time"

// Delay returns the pause before another attempt after earlier ones: first, doubled for each of them, up to limit.
func Delay(first, limit time.Duration, earlier int) time.Duration {
	d := first
	for range earlier {
		if d *= 2; d >= limit {
			return limit
		}
	}
	return d
}
