package leader

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/framework/sched"
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

// TestEstimatesAreForgottenAfterEdits: an edit, a hold or a cordon makes the estimates that were made before it void at once;
// a submission does not, because the time of the newest job tells.
func TestEstimatesAreForgottenAfterEdits(t *testing.T) {
	now := time.Now()
	c := newStartEstimateCache()
	c.last.Store(&startEstimates{made: now})
	isCurrent := func(at time.Time) bool {
		_, current := c.latest(at, now.Add(-time.Minute))
		return current
	}
	c.forget(now.Add(time.Second), sched.SubmitJob{})
	if !isCurrent(now.Add(2 * time.Second)) {
		t.Error("the estimates are void after a submission")
	}
	for _, e := range []sched.Event{sched.EditJob{}, sched.HoldJob{}, sched.CordonHost{}} {
		c.last.Store(&startEstimates{made: now})
		c.forget(now.Add(time.Second), e)
		if isCurrent(now.Add(2 * time.Second)) {
			t.Errorf("the estimates are current after %T", e)
		}
		c.last.Store(&startEstimates{made: now.Add(2 * time.Second)})
		if !isCurrent(now.Add(3 * time.Second)) {
			t.Errorf("new estimates are void after %T", e)
		}
	}
}
