package backoff

import (
	"testing"
	"time"
)

// TestDelay checks that pauses double up to the limit, and that many attempts overflow nothing.
func TestDelay(t *testing.T) {
	for earlier, want := range map[int]time.Duration{-1: 5, 0: 5, 1: 10, 2: 20, 3: 30, 4: 30, 1 << 20: 30} {
		if got := Delay(5*time.Second, 30*time.Second, earlier); got != want*time.Second {
			t.Errorf("after %d attempts: %s, want %s", earlier, got, want*time.Second)
		}
	}
}
