package leader

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestStartEstimatesDoNotDelayOtherRequests: while estimates are computed, which takes as long as the loop needs to answer, a
// request whose client has disconnected ends, and one for which the last estimates are recent enough is answered with them.
func TestStartEstimatesDoNotDelayOtherRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(&Loop{clock: time.Now, requests: make(chan loopRequest)}, Config{})
		made := time.Now()
		b.startEstimates.last.Store(&startEstimates{made: made})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan startEstimates)
		for range 2 { // the first computes, and the second waits for it
			go func() { ended <- b.estimateStarts(ctx, made) }()
		}
		synctest.Wait()
		if e := b.estimateStarts(t.Context(), made.Add(-time.Second)); !e.made.Equal(made) {
			t.Errorf("recent estimates: got those of %s", e.made)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if e := b.estimateStarts(gone, made); !e.made.Equal(made) {
			t.Errorf("a client that has disconnected: got the estimates of %s", e.made)
		}
		stop()
		for range 2 {
			if e := <-ended; !e.made.Equal(made) {
				t.Errorf("a loop that does not answer: got the estimates of %s", e.made)
			}
		}
		if len(b.startEstimates.computing) > 0 {
			t.Error("a computation is still in progress")
		}
	})
}
