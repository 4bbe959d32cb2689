package master

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/mesostest"
)

// callLog is an Observer that records what it is called with.
type callLog struct {
	mu            sync.Mutex
	calls         []string
	subscriptions int
	heard         time.Time
	more          chan struct{}
}

func (l *callLog) CallFinished(call, result string, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if took <= 0 {
		result += " in no time"
	}
	l.calls = append(l.calls, call+" "+result)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *callLog) SubscriptionAccepted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscriptions++
}

func (l *callLog) EventReceived(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = at
}

// TestCallObserver checks that the observer gets each attempt of a call with its result, each subscription, and the
// time of the last event.
func TestCallObserver(t *testing.T) {
	m := mesostest.NewMaster(t)
	refuse := map[scheduler.Call_Type][]int{
		scheduler.Call_SUBSCRIBE: {http.StatusServiceUnavailable},
		scheduler.Call_REVIVE:    {http.StatusServiceUnavailable, 0, http.StatusBadRequest, http.StatusForbidden},
	}
	var mu sync.Mutex
	m.RefuseStatus = func(call *scheduler.Call) int {
		mu.Lock()
		defer mu.Unlock()
		list := refuse[call.GetType()]
		if len(list) == 0 {
			return 0
		}
		refuse[call.GetType()] = list[1:]
		return list[0]
	}
	l, began := &callLog{more: make(chan struct{}, 1)}, time.Now()
	r := startClient(t, ConnectionConfig{Master: m.URL(), Observer: l})
	nextEvent[sched.Subscribed](t, r)
	r.PostOperation(sched.ReviveOffers{}) // succeeds at the second attempt
	r.PostOperation(sched.ReviveOffers{}) // is refused
	r.PostOperation(sched.ReviveOffers{}) // the client is not subscribed: the session ends
	nextEvent[sched.Subscribed](t, r)
	if _, err := r.ListAgents(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Close()
	nextEvent[sched.Disconnected](t, r)
	for _, err := r.ListAgents(t.Context()); err == nil; _, err = r.ListAgents(t.Context()) {
		t.Error("a closed master answers")
	}
	r.stop()
	if err := r.awaitEnd(t); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	want := []string{
		"SUBSCRIBE unavailable", "SUBSCRIBE ok", "REVIVE unavailable", "REVIVE ok", "REVIVE refused", "REVIVE unsubscribed",
		"SUBSCRIBE ok", "GET_AGENTS ok", "GET_AGENTS unanswered",
	}
	// After Close each attempt to subscribe is unanswered, until stop cancels the last.
	got := slices.DeleteFunc(slices.Clone(l.calls), func(c string) bool { return c == "SUBSCRIBE unanswered" || c == "SUBSCRIBE canceled" })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if l.subscriptions != 2 || l.heard.Before(began) {
		t.Errorf("%d subscriptions, want 2; events at %v", l.subscriptions, l.heard)
	}
}
