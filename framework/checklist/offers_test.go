package checklist

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/testing/faultproxy"
	"mesos-gpu/job"
)

// answeredOffers returns the offers that a call accepts or declines.
func answeredOffers(c *scheduler.Call) []mesos.OfferID {
	return append(c.GetAccept().GetOfferIDs(), c.GetDecline().GetOfferIDs()...)
}

// offerEvents returns the event with which each offer arrived.
func (w *testEnv) offerEvents() map[mesos.OfferID]faultproxy.RecordedEvent {
	all := map[mesos.OfferID]faultproxy.RecordedEvent{}
	for _, e := range w.Events() {
		for _, o := range e.GetOffers().GetOffers() {
			all[o.ID] = e
		}
	}
	return all
}

// checkOfferInvariants checks the invariants of all offers: each is answered at most once, and
// on the subscription on which it arrived.
func (w *testEnv) checkOfferInvariants() {
	w.t.Helper()
	offered, answered := w.offerEvents(), map[mesos.OfferID]bool{}
	for _, c := range w.Calls() {
		for _, id := range answeredOffers(c.Call) {
			if answered[id] {
				w.t.Errorf("offer %s is answered twice", id.Value)
			}
			answered[id] = true
			if e, came := offered[id]; !came || e.Stream != c.Stream {
				w.t.Errorf("%s on subscription %d names offer %s of subscription %d", c.GetType(), c.Stream, id.Value, e.Stream)
			}
		}
	}
}

func TestMesos21_OffersAreVoidOnDisconnectAndRescind(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	// The offer is rescinded while the ACCEPT for it is in flight.
	w.InjectFault(1, faultproxy.MatchType(scheduler.Call_ACCEPT), w.declineBefore(faultproxy.ForwardCall))
	in.submit(w.newSpec("train", 1))
	id := launchedTasks(w.awaitCall(1, scheduler.Call_ACCEPT, nil).Call)[0]
	refused := w.awaitEvent(1, scheduler.Event_UPDATE, func(e faultproxy.RecordedEvent) bool { return e.Update.Status.TaskID.Value == id })
	if got := refused.Update.Status.GetReason(); got != mesos.REASON_INVALID_OFFERS {
		t.Errorf("the ACCEPT of a rescinded offer led to %s", got)
	}
	if again := in.awaitTask("train", job.Running); again.ID == id {
		t.Errorf("task %s runs, which the master refused", id)
	}
	// Offers held when the subscription ends are void afterwards.
	in.submit(w.newSpec("large", 2)) // more than is available: offers are held for a while
	w.CutStream()
	w.awaitCall(1, scheduler.Call_RECONCILE, func(c faultproxy.RecordedCall) bool { return c.Stream == 2 })
	w.finishTasks("train")
	in.awaitTask("large", job.Running)
	w.checkOfferInvariants()
}

func TestMesos22_EachOfferIsAcceptedOrDeclinedOnce(t *testing.T) {
	w := newTestEnv(t, gpuAgent, otherGPUs, plainAgent)
	in := w.startScheduler(nil)
	for n := range 3 {
		w.runJob(in, fmt.Sprint("train-", n), 1)
	}
	w.awaitCondition("an answer to each offer", func() bool {
		left := w.offerEvents()
		for _, c := range w.Calls() {
			for _, id := range answeredOffers(c.Call) {
				delete(left, id)
			}
		}
		for _, e := range w.Events() {
			delete(left, e.GetRescind().GetOfferID())
		}
		return len(left) == 0
	})
	w.checkOfferInvariants()
	offered := w.offerEvents()
	for _, c := range w.listCalls(scheduler.Call_DECLINE, nil) {
		for _, id := range c.Decline.OfferIDs {
			// The scheduler checks the time once a second, and later on a stalled machine.
			if took := c.At.Sub(offered[id].At); took > holdOffers+waitTimeout/4 {
				t.Errorf("offer %s was declined after %s", id.Value, took)
			}
		}
	}
}

func TestMesos23_UnusedOffersAreDeclinedWithLongFilter(t *testing.T) {
	w := newTestEnv(t, gpuAgent, plainAgent)
	in := w.startScheduler(nil)
	s := w.newSpec("elsewhere", 1)
	s.Request.Types.Include = []string{"H100"} // no agent has this type
	in.submit(s)
	c := w.awaitCall(1, scheduler.Call_DECLINE, nil)
	const hour, year = 3600, 365 * 24 * 3600
	if got := c.Decline.Filters.GetRefuseSeconds(); got < hour/2 || got > year {
		t.Errorf("refused for %v s, want about %d", got, hour)
	}
}

func TestMesos24_SuppressWhenIdleReviveForWork(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	const least = 100 * time.Millisecond // while the master answers at once
	in := w.startScheduler(nil)
	w.runJob(in, "first", 1)
	w.awaitCondition("silence once nothing waits", w.isSuppressed)
	// New jobs cause a REVIVE, but not one for each job.
	for n := range 10 {
		in.submit(w.newSpec(fmt.Sprint("large-", n), 5)) // larger than any agent
	}
	in.submit(w.newSpec("last", 1))
	in.awaitTask("last", job.Running)
	revived := w.listCalls(scheduler.Call_REVIVE, nil) // the call may be made before submit returns
	in.submit(w.newSpec("more", 5))
	w.awaitCall(len(revived)+1, scheduler.Call_REVIVE, nil)
	revived = w.listCalls(scheduler.Call_REVIVE, nil)
	for n := 1; n < len(revived); n++ {
		if gap := revived[n].At.Sub(revived[n-1].At); gap < least/2 { // either may be late
			t.Errorf("REVIVE %s after the one before, want at least about %s", gap, least)
		}
	}
}

// isSuppressed reports whether the framework's latest accepted call about offers was
// SUPPRESS.
func (w *testEnv) isSuppressed() bool {
	calls := slices.DeleteFunc(w.Calls(), func(c faultproxy.RecordedCall) bool {
		return c.Status != http.StatusAccepted && c.Status != http.StatusOK
	})
	slices.Reverse(calls)
	for _, c := range calls {
		switch c.GetType() {
		case scheduler.Call_SUPPRESS:
			return true
		case scheduler.Call_REVIVE:
			return false
		case scheduler.Call_SUBSCRIBE:
			return len(c.Subscribe.SuppressedRoles) > 0
		}
	}
	return false
}
