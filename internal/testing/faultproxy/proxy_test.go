package faultproxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/local/master"
	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/testing/faultproxy"
)

// proxyRig is an embedded master behind a proxy, and a scheduler that has subscribed.
type proxyRig struct {
	*faultproxy.Proxy
	t      *testing.T
	server *httptest.Server
	events io.ReadCloser
	id     *mesos.FrameworkID
	stream string
}

func newRig(t *testing.T) *proxyRig {
	m := master.New(master.MasterConfig{})
	r := &proxyRig{t: t, Proxy: faultproxy.New(m.Handler())}
	r.server = httptest.NewServer(r.Proxy)
	t.Cleanup(func() { r.server.CloseClientConnections(); r.server.Close() })
	return r
}

func (r *proxyRig) subscribe() {
	r.t.Helper()
	timeout := 60.0
	r.stream = ""
	res, err := r.post("/api/v1/scheduler", &scheduler.Call{Type: scheduler.Call_SUBSCRIBE, FrameworkID: r.id, Subscribe: &scheduler.Call_Subscribe{
		FrameworkInfo: &mesos.FrameworkInfo{ID: r.id, User: "root", Name: "tap", FailoverTimeout: &timeout},
	}})
	if err != nil || res.StatusCode != http.StatusOK {
		r.t.Fatalf("subscribe: %v %v", res, err)
	}
	r.t.Cleanup(func() { res.Body.Close() })
	r.events, r.stream = res.Body, res.Header.Get(mesosapi.HeaderStreamID)
	r.id = r.next().GetSubscribed().GetFrameworkID()
}

func (r *proxyRig) post(path string, call proto.Message) (*http.Response, error) {
	body, err := proto.Marshal(call)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.server.URL+path, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", mesosapi.Protobuf)
	req.Header.Set("Accept", mesosapi.Protobuf)
	if r.stream != "" {
		req.Header.Set(mesosapi.HeaderStreamID, r.stream)
	}
	return (&http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}).Do(req)
}

// call makes a call without a body and returns the answer's status, or 0 for a
// closed connection.
func (r *proxyRig) call(kind scheduler.Call_Type) int {
	r.t.Helper()
	res, err := r.post("/api/v1/scheduler", &scheduler.Call{Type: kind, FrameworkID: r.id})
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// next returns the next event except heartbeats, or nil at the end of the
// stream.
func (r *proxyRig) next() *scheduler.Event {
	r.t.Helper()
	for {
		line := ""
		for b := make([]byte, 1); ; line += string(b) {
			if _, err := io.ReadFull(r.events, b); err != nil {
				return nil
			}
			if b[0] == '\n' {
				break
			}
		}
		n, err := strconv.Atoi(line)
		if err != nil {
			r.t.Fatal(err)
		}
		frame, e := make([]byte, n), &scheduler.Event{}
		if _, err := io.ReadFull(r.events, frame); err != nil {
			r.t.Fatal(err)
		}
		if err := proto.Unmarshal(frame, e); err != nil {
			r.t.Fatal(err)
		}
		if e.Type != scheduler.Event_HEARTBEAT {
			return e
		}
	}
}

func rescind(id string) *scheduler.Event {
	return &scheduler.Event{Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{OfferID: mesos.OfferID{Value: id}}}
}

func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault faultproxy.CallFault
		want  int
		taken bool // by the master
	}{
		{"forward", faultproxy.ForwardCall, 202, true},
		{"not subscribed", faultproxy.NotSubscribed(), 403, false},
		{"overloaded", faultproxy.AnswerOverloaded(), 503, false},
		{"bad request", faultproxy.AnswerStatus(400, "no"), 400, false},
		{"swallow", faultproxy.IgnoreCall(), 202, false},
		{"redirect", faultproxy.RedirectTo("http://127.0.0.1:1"), 307, false},
		{"drop", faultproxy.DropConnection, 0, false},
		{"lose", faultproxy.LoseAnswer, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.subscribe()
			r.InjectFault(1, faultproxy.MatchType(scheduler.Call_TEARDOWN), tc.fault)
			if got := r.call(scheduler.Call_REVIVE); got != 202 {
				t.Errorf("another call was answered %d", got)
			}
			if got := r.call(scheduler.Call_TEARDOWN); got != tc.want {
				t.Errorf("answered %d, want %d", got, tc.want)
			}
			// The master knows no framework that was torn down.
			if got := r.call(scheduler.Call_TEARDOWN); (got == 400) != tc.taken {
				t.Errorf("the call once more was answered %d", got)
			}
			calls := r.Calls()
			if last := calls[len(calls)-2]; last.Status != tc.want || last.StreamID != r.stream || last.Stream != 1 {
				t.Errorf("kept %+v", last)
			}
		})
	}
}

func TestHangLastsUntilTheCallerGoes(t *testing.T) {
	r := newRig(t)
	r.subscribe()
	r.InjectFault(-1, faultproxy.MatchType(scheduler.Call_REVIVE), faultproxy.NeverAnswer)
	answered := make(chan int, 1)
	go func() { answered <- r.call(scheduler.Call_REVIVE) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.AwaitCondition(ctx, func() bool { return len(r.Calls()) == 2 }); err != nil {
		t.Fatal(err)
	}
	r.ClearFaults() // for the cases that follow
	if got := r.call(scheduler.Call_REVIVE); got != 202 {
		t.Errorf("after the repair: %d", got)
	}
	select {
	case got := <-answered:
		t.Errorf("the call that hangs was answered %d", got)
	default:
	}
	r.server.CloseClientConnections()
	if got := <-answered; got != 0 {
		t.Errorf("answered %d", got)
	}
}

func TestEventsAreFilteredAndMadeUp(t *testing.T) {
	r := newRig(t)
	r.SetFilter(func(e *scheduler.Event) []*scheduler.Event {
		if e.Type != scheduler.Event_SUBSCRIBED {
			return nil
		}
		return []*scheduler.Event{e, rescind("made-up"), rescind("twice")}
	})
	r.subscribe()
	r.InjectEvents(rescind("sent"))
	for _, want := range []string{"made-up", "twice", "sent"} {
		if got := r.next().GetRescind().GetOfferID(); got.Value != want {
			t.Errorf("got %q, want %q", got.Value, want)
		}
	}
	if n := len(r.Events()); n != 4 {
		t.Errorf("kept %d events, want 4", n)
	}
	r.CutStream()
	if e := r.next(); e != nil {
		t.Errorf("after Cut came %v", e)
	}
	r.InjectEvents(rescind("unknown")) // is there
	if n := len(r.Events()); n != 4 {
		t.Errorf("kept %d events of a stream that has ended", n)
	}
	r.SetFilter(nil)
	r.subscribe()
	if events := r.Events(); events[4].Stream != 2 || events[4].GetType() != scheduler.Event_SUBSCRIBED {
		t.Errorf("kept %v", events[4])
	}
}

func TestDoActsForTheScheduler(t *testing.T) {
	r := newRig(t)
	call := &scheduler.Call{Type: scheduler.Call_TEARDOWN}
	if _, err := r.MakeCall(call); err == nil {
		t.Error("a call without a framework succeeded")
	}
	r.subscribe()
	call.FrameworkID = r.id
	if status, err := r.MakeCall(call); status != 202 || err != nil {
		t.Errorf("%d %v", status, err)
	}
	if n := len(r.Calls()); n != 1 {
		t.Errorf("%d calls kept, want SUBSCRIBE alone", n)
	}
	if e := r.next(); e != nil {
		t.Errorf("after TEARDOWN came %v", e)
	}
	// The master has closed the subscription, but the proxy may not have
	// noticed yet.
	if status, err := r.MakeCall(call); err == nil && status == http.StatusAccepted {
		t.Error("a call on a stream that has ended succeeded")
	}
}

func TestFollow(t *testing.T) {
	leader, r := newRig(t), newRig(t)
	r.subscribe()
	r.ReportLeader(leader.server.URL)
	if e := r.next(); e != nil {
		t.Errorf("a master that leads no more sent %v", e)
	}
	for path, call := range map[string]proto.Message{
		"/master/redirect": &operator.Call{}, "/api/v1": &operator.Call{Type: operator.Call_GET_HEALTH},
		"/api/v1/scheduler": &scheduler.Call{Type: scheduler.Call_REVIVE, FrameworkID: r.id},
	} {
		res, err := r.post(path, call)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := res.Header.Get("Location"); res.StatusCode != 307 || !bytes.Contains([]byte(got), []byte(leader.server.Listener.Addr().String())) {
			t.Errorf("%s: %s to %q", path, res.Status, got)
		}
	}
	r.ReportLeader("")
	r.subscribe()
	if _, err := r.post("/api/v1", &operator.Call{Type: operator.Call_GET_HEALTH}); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(len(r.OperatorCalls())); got != "1" {
		t.Errorf("%s operator calls kept, want 1", got)
	}
}
