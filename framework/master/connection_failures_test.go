package master

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// runInBubble runs a client and a master in a synctest bubble, with the backoff of production and a constant in place
// of random numbers.
func runInBubble(t *testing.T, test func(t *testing.T, m *mesostest.FakeCluster, begin func(ConnectionConfig) *runningClient)) {
	synctest.Test(t, func(t *testing.T) {
		m := mesostest.NewCluster(t, 1, mesostest.InMemory())
		test(t, m, func(cfg ConnectionConfig) *runningClient {
			cfg.Master, cfg.Transport, cfg.random = m.URL(), m.Transport(), func() float64 { return 0.5 }
			cfg.backoffMin, cfg.backoffMax = 500*time.Millisecond, 15*time.Second
			return startClient(t, cfg)
		})
	})
}

// refuseCalls makes the master answer calls of one type with a status, and returns a counter of them.
func refuseCalls(m *mesostest.FakeCluster, kind scheduler.Call_Type, status int, text string) *atomic.Int32 {
	var n atomic.Int32
	m.RefuseText = text
	m.RefuseStatus = func(call *scheduler.Call) int {
		if call.GetType() != kind {
			return 0
		}
		n.Add(1)
		return status
	}
	return &n
}

// TestHeartbeatsKeepTheSession checks that the session ends after five missed heartbeats (75 s), and not before.
func TestHeartbeatsKeepTheSession(t *testing.T) {
	runInBubble(t, func(t *testing.T, m *mesostest.FakeCluster, begin func(ConnectionConfig) *runningClient) {
		r := begin(ConnectionConfig{})
		nextEvent[sched.Subscribed](t, r)
		for range 100 {
			time.Sleep(74 * time.Second)
			m.SendHeartbeat()
		}
		synctest.Wait()
		if n := len(m.Calls()); n != 1 {
			t.Fatalf("%d calls although the master sent heartbeats", n)
		}
		time.Sleep(75*time.Second - 1)
		synctest.Wait()
		if r.currentSession() == nil {
			t.Error("the session ended before five heartbeats were missed")
		}
		time.Sleep(time.Nanosecond)
		nextEvent[sched.Disconnected](t, r)
		nextEvent[sched.Subscribed](t, r)
	})
}

// TestSubscribeBacksOff checks that the backoff grows to 15 s, whatever the failure.
func TestSubscribeBacksOff(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusBadRequest, http.StatusForbidden, http.StatusTemporaryRedirect} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			runInBubble(t, func(t *testing.T, m *mesostest.FakeCluster, begin func(ConnectionConfig) *runningClient) {
				n := refuseCalls(m, scheduler.Call_SUBSCRIBE, status, "")
				begin(ConnectionConfig{})
				time.Sleep(time.Hour)
				// 0.375 + 0.75 + 1.5 + 3 + 6 s, then 11.25 s each.
				if got := n.Load(); got < 320 || got > 326 {
					t.Errorf("%d SUBSCRIBEs in an hour, want one every 11.25 s", got)
				}
			})
		})
	}
}

// TestImmediatelyClosedSubscriptionBacksOff checks that the client backs off if the master ends each subscription because it is
// over its capacity.
func TestImmediatelyClosedSubscriptionBacksOff(t *testing.T) {
	runInBubble(t, func(t *testing.T, m *mesostest.FakeCluster, begin func(ConnectionConfig) *runningClient) {
		capacity := &scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: "Message dropped: capacity(100) exceeded"}}
		m.OnCall = func(call *scheduler.Call) {
			if call.GetType() == scheduler.Call_SUBSCRIBE {
				m.SendEvents(capacity)
			}
		}
		begin(ConnectionConfig{})
		time.Sleep(time.Hour)
		if n := len(m.Calls()); n < 320 || n > 326 {
			t.Errorf("%d subscriptions in an hour with a master that is over capacity, want one every 11.25 s", n)
		}
	})
}

// TestUnavailableMasterIsRetried checks that a 503, or no answer, does not end the session.
func TestUnavailableMasterIsRetried(t *testing.T) {
	for name, status := range map[string]int{
		"503":                           http.StatusServiceUnavailable,
		"404 before its routes are set": http.StatusNotFound,
		"no answer":                     mesostest.Hang,
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(t *testing.T, m *mesostest.FakeCluster, begin func(ConnectionConfig) *runningClient) {
				r := begin(ConnectionConfig{callTimeout: 3 * time.Second})
				nextEvent[sched.Subscribed](t, r)
				var n atomic.Int32
				m.RefuseStatus = func(call *scheduler.Call) int {
					if call.GetType() == scheduler.Call_KILL && n.Add(1) <= 3 {
						return status
					}
					return 0
				}
				r.PostOperation(sched.KillTask{TaskID: "t1"})
				m.AwaitCall(t, 1, scheduler.Call_KILL, nil)
				if n.Load() != 4 || len(m.Calls()) != 2 {
					t.Errorf("%d tries, calls taken: %d, want 4 and 2: SUBSCRIBE and KILL", n.Load(), len(m.Calls()))
				}
			})
		})
	}
}

// An ACCEPT without an answer may have started tasks, so it is not repeated. It may also be lost: declining its offers
// frees their resources then, and has no effect otherwise.
func TestUnansweredAcceptIsNotRepeatedAndItsOffersAreDeclined(t *testing.T) {
	runInBubble(t, func(t *testing.T, m *mesostest.FakeCluster, begin func(ConnectionConfig) *runningClient) {
		n := refuseCalls(m, scheduler.Call_ACCEPT, mesostest.Hang, "")
		r := begin(ConnectionConfig{callTimeout: time.Second})
		offer := nextEvent[sched.OffersReceived](t, r).Offers[0]
		r.PostOperation(sched.AcceptOffers{
			AgentID:  "agent-1",
			OfferIDs: []string{offer.ID},
			Launches: []sched.TaskLaunch{{TaskID: "t1", Spec: &job.Spec{Name: "t", CPUs: 1, MemMiB: 1}}},
		})
		nextEvent[sched.AcceptFailed](t, r)
		m.AwaitCall(t, 1, scheduler.Call_DECLINE, nil) // it is sent after the event
		r.PostOperation(sched.SuppressOffers{})
		m.AwaitCall(t, 1, scheduler.Call_SUPPRESS, nil)
		if got := callTypes(m); got != "SUBSCRIBE DECLINE SUPPRESS" || n.Load() != 1 {
			t.Errorf("calls %s, %d ACCEPTs", got, n.Load())
		}
	})
}

func callTypes(m *mesostest.FakeCluster) string {
	var list []string
	for _, c := range m.Calls() {
		list = append(list, c.GetType().String())
	}
	return strings.Join(list, " ")
}

// TestFailuresThatEndTheSession covers a new leader, revoked credentials, and a subscription that the master does not
// know.
func TestFailuresThatEndTheSession(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		text   string
	}{
		"another master leads": {http.StatusTemporaryRedirect, ""},
		"not authenticated":    {http.StatusUnauthorized, ""},
		"not subscribed":       {http.StatusForbidden, "Framework is not subscribed"},
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(t *testing.T, m *mesostest.FakeCluster, begin func(ConnectionConfig) *runningClient) {
				n := refuseCalls(m, scheduler.Call_KILL, tt.status, tt.text)
				r := begin(ConnectionConfig{})
				nextEvent[sched.Subscribed](t, r)
				r.PostOperation(sched.KillTask{TaskID: "t1"})
				nextEvent[sched.Disconnected](t, r)
				nextEvent[sched.Subscribed](t, r)
				if n.Load() != 1 {
					t.Errorf("the call was tried %d times", n.Load())
				}
			})
		})
	}
}

// TestFailuresThatEndOnlyTheCall checks that the next call is sent in the same session.
func TestFailuresThatEndOnlyTheCall(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		text   string
	}{
		"400":                          {http.StatusBadRequest, "Failed to validate scheduler::Call"},
		"400 of a stream of long ago":  {http.StatusBadRequest, "The stream ID 'x' included in this request didn't match"},
		"403 of the authorizer":        {http.StatusForbidden, "Not authorized to register framework"},
		"409":                          {http.StatusConflict, ""},
		"413 of a proxy in between us": {http.StatusRequestEntityTooLarge, ""},
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(t *testing.T, m *mesostest.FakeCluster, begin func(ConnectionConfig) *runningClient) {
				n := refuseCalls(m, scheduler.Call_KILL, tt.status, tt.text)
				r := begin(ConnectionConfig{})
				nextEvent[sched.Subscribed](t, r)
				r.PostOperation(sched.KillTask{TaskID: "t1"})
				r.PostOperation(sched.SuppressOffers{})
				m.AwaitCall(t, 1, scheduler.Call_SUPPRESS, nil)
				if got := callTypes(m); got != "SUBSCRIBE SUPPRESS" || n.Load() != 1 {
					t.Errorf("calls %s, the KILL was tried %d times", got, n.Load())
				}
			})
		})
	}
}

// TestLeaderChangeDuringSubscription checks that a redirected call ends the session, and that the next session is with the
// new leader.
func TestLeaderChangeDuringSubscription(t *testing.T) {
	old, leader := mesostest.NewMaster(t), mesostest.NewMaster(t)
	r := startClient(t, ConnectionConfig{Master: old.URL()})
	nextEvent[sched.Subscribed](t, r)
	old.RefuseStatus = func(*scheduler.Call) int { return http.StatusTemporaryRedirect }
	old.Leader = leader.URL()
	r.PostOperation(sched.SuppressOffers{})
	nextEvent[sched.Disconnected](t, r)
	nextEvent[sched.Subscribed](t, r)
	sub := leader.AwaitCall(t, 1, scheduler.Call_SUBSCRIBE, nil)
	if sub.GetFrameworkID().GetValue() != "framework-1" || !slices.Equal(sub.GetSubscribe().SuppressedRoles, []string{"gpu"}) {
		t.Errorf("subscribed to the new leader with %v", sub)
	}
	r.PostOperation(sched.ReviveOffers{})
	leader.AwaitCall(t, 1, scheduler.Call_REVIVE, nil)
}

// TestReregistration checks that a removed framework registers with a new id if it is configured to.
func TestReregistration(t *testing.T) {
	m := mesostest.NewMaster(t)
	r := startClient(t, ConnectionConfig{Master: m.URL(), FrameworkID: "old", ReregisterRemoved: true})
	if id := nextEvent[sched.Subscribed](t, r).FrameworkID; id != "old" {
		t.Fatalf("subscribed as %s", id)
	}
	m.SendEvents(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: "Framework has been removed"}})
	nextEvent[sched.Disconnected](t, r)
	if id := nextEvent[sched.Subscribed](t, r).FrameworkID; id != "framework-1" || r.FrameworkID() != id {
		t.Errorf("subscribed again as %s", id)
	}
	if id := m.AwaitCall(t, 2, scheduler.Call_SUBSCRIBE, nil).GetFrameworkID(); id != nil {
		t.Errorf("the second SUBSCRIBE has framework id %v", id)
	}
}

// TestReplacedFrameworkDuringCall: the master may answer calls of the old instance with 400 before that instance has read
// the reason. It must not subscribe again.
func TestReplacedFrameworkDuringCall(t *testing.T) {
	runInBubble(t, func(t *testing.T, m *mesostest.FakeCluster, begin func(ConnectionConfig) *runningClient) {
		refuseCalls(m, scheduler.Call_KILL, http.StatusBadRequest, "The stream ID 'a' included in this request didn't match the stream ID currently associated")
		r := begin(ConnectionConfig{})
		nextEvent[sched.Subscribed](t, r)
		r.PostOperation(sched.KillTask{TaskID: "t1"})
		synctest.Wait()
		m.SendEvents(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: "Framework failed over"}})
		if err := r.awaitEnd(t); !errors.Is(err, ErrReplaced) || len(m.Calls()) != 1 {
			t.Errorf("Run returned %v after %s", err, callTypes(m))
		}
	})
}

// TestUnexpectedEvents sends a second SUBSCRIBED, and an event of an unknown type.
func TestUnexpectedEvents(t *testing.T) {
	m := mesostest.NewMaster(t)
	r := startClient(t, ConnectionConfig{Master: m.URL()})
	nextEvent[sched.Subscribed](t, r)
	m.SendEvents(
		&scheduler.Event{Type: scheduler.Event_SUBSCRIBED, Subscribed: &scheduler.Event_Subscribed{FrameworkID: &mesos.FrameworkID{Value: "framework-1"}}},
		&scheduler.Event{Type: 4711},
		&scheduler.Event{Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{OfferID: mesos.OfferID{Value: "o1"}}},
	)
	if got := <-r.events; got != (sched.OfferRescinded{OfferID: "o1"}) {
		t.Errorf("got %+v, want the rescind", got)
	}
}
