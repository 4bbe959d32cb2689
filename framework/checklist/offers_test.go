package checklist

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework"
	"mesos-gpu/internal/faultproxy"
	"mesos-gpu/job"
)

// answeredOffers returns the offers that a call accepts or declines.
func answeredOffers(c *scheduler.Call) []mesos.OfferID {
	return append(c.GetAccept().GetOfferIDs(), c.GetDecline().GetOfferIDs()...)
}

// offered returns the event with which each offer arrived.
func (w *world) offered() map[mesos.OfferID]faultproxy.RecordedEvent {
	all := map[mesos.OfferID]faultproxy.RecordedEvent{}
	for _, e := range w.Events() {
		for _, o := range e.GetOffers().GetOffers() {
			all[o.ID] = e
		}
	}
	return all
}

// wantFairOffers checks the invariants of all offers: each is answered at most once, and
// on the subscription on which it arrived.
func (w *world) wantFairOffers() {
	w.t.Helper()
	offered, answered := w.offered(), map[mesos.OfferID]bool{}
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
	w := newWorld(t, gpuAgent)
	in := w.start(nil)
	// The offer is rescinded while the ACCEPT for it is in flight.
	w.InjectFault(1, faultproxy.MatchType(scheduler.Call_ACCEPT), w.giveBack(faultproxy.ForwardCall))
	in.submit(w.spec("train", 1))
	id := launchedTasks(w.call(1, scheduler.Call_ACCEPT, nil).Call)[0]
	refused := w.event(1, scheduler.Event_UPDATE, func(e faultproxy.RecordedEvent) bool { return e.Update.Status.TaskID.Value == id })
	if got := refused.Update.Status.GetReason(); got != mesos.REASON_INVALID_OFFERS {
		t.Errorf("the ACCEPT of a rescinded offer led to %s", got)
	}
	if again := in.task("train", job.Running); again.ID == id {
		t.Errorf("task %s runs, which the master refused", id)
	}
	// Offers held when the subscription ends are void afterwards.
	in.submit(w.spec("large", 2)) // more than is available: offers are held for a while
	w.CutStream()
	w.call(1, scheduler.Call_RECONCILE, func(c faultproxy.RecordedCall) bool { return c.Stream == 2 })
	w.finish("train")
	in.task("large", job.Running)
	w.wantFairOffers()
}

func TestMesos22_EachOfferIsAcceptedOrDeclinedOnce(t *testing.T) {
	w := newWorld(t, gpuAgent, otherGPUs, plainAgent)
	in := w.start(nil)
	for n := range 3 {
		w.run(in, fmt.Sprint("train-", n), 1)
	}
	w.until("an answer to each offer", func() bool {
		left := w.offered()
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
	w.wantFairOffers()
	offered := w.offered()
	for _, c := range w.these(scheduler.Call_DECLINE, nil) {
		for _, id := range c.Decline.OfferIDs {
			// The scheduler checks the time once a second, and later on a stalled machine.
			if took := c.At.Sub(offered[id].At); took > holdOffers+patience/4 {
				t.Errorf("offer %s was declined after %s", id.Value, took)
			}
		}
	}
}

func TestMesos23_UnusedOffersAreDeclinedWithLongFilter(t *testing.T) {
	w := newWorld(t, gpuAgent, plainAgent)
	in := w.start(nil)
	s := w.spec("elsewhere", 1)
	s.Request.Types.Include = []string{"H100"} // no agent has this type
	in.submit(s)
	c := w.call(1, scheduler.Call_DECLINE, nil)
	const hour, year = 3600, 365 * 24 * 3600
	if got := c.Decline.Filters.GetRefuseSeconds(); got < hour/2 || got > year {
		t.Errorf("refused for %v s, want about %d", got, hour)
	}
}

func TestMesos24_SuppressWhenIdleReviveForWork(t *testing.T) {
	w := newWorld(t, gpuAgent)
	const every = 2 * time.Second
	in := w.start(func(c *framework.SchedulerConfig) { c.Sched.ReviveEvery = every })
	w.run(in, "first", 1)
	w.until("silence once nothing waits", w.suppressed)
	// New jobs cause a REVIVE, but not one for each job.
	for n := range 10 {
		in.submit(w.spec(fmt.Sprint("large-", n), 5)) // larger than any agent
	}
	in.submit(w.spec("last", 1))
	in.task("last", job.Running)
	in.submit(w.spec("more", 5))
	revived := w.these(scheduler.Call_REVIVE, nil)
	w.call(len(revived)+1, scheduler.Call_REVIVE, nil)
	revived = w.these(scheduler.Call_REVIVE, nil)
	for n := 1; n < len(revived); n++ {
		if gap := revived[n].At.Sub(revived[n-1].At); gap < every/2 { // either may be late
			t.Errorf("REVIVE %s after another, want about %s at least", gap, every)
		}
	}
}

// suppressed reports whether the framework's latest accepted call about offers was
// SUPPRESS.
func (w *world) suppressed() bool {
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
