package master

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// runningClient is a Client under test and the events that it emits.
type runningClient struct {
	*Client
	events chan sched.Event
	done   chan error
	stop   context.CancelFunc
}

func startClient(t *testing.T, cfg ConnectionConfig) *runningClient {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = newDiscardLogger()
	}
	cfg.ExecutorPath, cfg.Name, cfg.User = "/usr/bin/mesos-gpu", "test", "daemon"
	if len(cfg.Roles) == 0 {
		cfg.Roles = []string{"gpu"}
	}
	if cfg.backoffMin == 0 {
		cfg.backoffMin, cfg.backoffMax = time.Millisecond, 10*time.Millisecond
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &runningClient{Client: c, events: make(chan sched.Event, 1000), done: make(chan error, 1), stop: cancel}
	go func() { r.done <- c.Run(ctx, func(ev sched.Event) { r.events <- ev }) }()
	t.Cleanup(func() {
		cancel()
		c.Close()
	})
	return r
}

// nextEvent waits for an event of type E and drops all others.
func nextEvent[E sched.Event](t *testing.T, r *runningClient) E {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case ev := <-r.events:
			if e, ok := ev.(E); ok {
				return e
			}
		case err := <-r.done:
			t.Fatalf("Run ended: %v", err)
		case <-deadline:
			var want E
			t.Fatalf("no %T came", want)
		}
	}
}

func (r *runningClient) awaitEnd(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(time.Minute):
		t.Fatal("Run did not end")
		return nil
	}
}

func TestSubscribeCarriesFrameworkInfo(t *testing.T) {
	m := mesostest.NewMaster(t)
	r := startClient(t, ConnectionConfig{Master: m.URL(), FailoverTimeout: 7 * 24 * time.Hour})
	if got := nextEvent[sched.Subscribed](t, r); got.FrameworkID != "framework-1" || r.FrameworkID() != "framework-1" {
		t.Errorf("subscribed as %q and %q", got.FrameworkID, r.FrameworkID())
	}
	info := m.AwaitCall(t, 1, scheduler.Call_SUBSCRIBE, nil).GetSubscribe().GetFrameworkInfo()
	if info.GetID() != nil || !info.GetCheckpoint() || info.GetFailoverTimeout() != 604800 || !slices.Equal(info.Roles, []string{"gpu"}) || info.User != "daemon" {
		t.Errorf("framework info %v", info)
	}
	var capabilities []string
	for _, c := range info.Capabilities {
		capabilities = append(capabilities, c.Type.String())
	}
	want := "GPU_RESOURCES MULTI_ROLE PARTITION_AWARE TASK_KILLING_STATE RESERVATION_REFINEMENT"
	if got := strings.Join(capabilities, " "); got != want {
		t.Errorf("capabilities %s, want %s", got, want)
	}
	r.stop()
	if err := r.awaitEnd(t); err != nil {
		t.Errorf("Run after stop: %v", err)
	}
}

// TestCallsReachTheMaster posts one operation of each type, in order.
func TestCallsReachTheMaster(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	r := startClient(t, ConnectionConfig{Master: c.URL()})
	offer := nextEvent[sched.OffersReceived](t, r).Offers[0]
	spec := &job.Spec{Name: "train", CPUs: 1, MemMiB: 128, Command: []string{"true"}, KillGrace: time.Second}
	spec.Request.GPUs = 1
	for _, op := range []sched.Operation{
		sched.AcceptOffers{
			AgentID:  offer.AgentID,
			OfferIDs: []string{offer.ID},
			Launches: []sched.TaskLaunch{{TaskID: "train.0", Spec: spec, DeviceIDs: offer.DeviceIDs[1:2], Overhead: sched.Amount{CPUs: 0.1, MemMiB: 32}}},
			Refuse:   5 * time.Second,
		},
		sched.AcknowledgeUpdate{AgentID: "agent-1", TaskID: "train.0", UUID: []byte{7}},
		sched.SuppressOffers{}, sched.ReviveOffers{},
		sched.ReconcileTasks{Tasks: []sched.TaskLocation{{TaskID: "train.0", AgentID: "agent-1"}}},
		sched.KillTask{TaskID: "train.0", AgentID: "agent-1"},
		sched.KillTask{TaskID: "train.0", AgentID: "agent-1", Force: true},
	} {
		r.PostOperation(op)
	}
	if u := nextEvent[sched.TaskUpdate](t, r); u.State != job.Running || u.TaskID != "train.0" {
		t.Errorf("first update %+v", u)
	}
	again := nextEvent[sched.OffersReceived](t, r).Offers[0]
	r.PostOperation(sched.DeclineOffers{Offers: []sched.DeclinedOffer{{OfferID: again.ID}, {OfferID: "gone"}}, Refuse: time.Hour})
	decline := c.AwaitCall(t, 1, scheduler.Call_DECLINE, nil).GetDecline()
	if len(decline.OfferIDs) != 1 || decline.GetFilters().GetRefuseSeconds() != 3600 {
		t.Errorf("decline %v", decline)
	}
	var kinds []string
	for _, call := range c.Calls() {
		kinds = append(kinds, call.GetType().String())
		if call.GetType() != scheduler.Call_SUBSCRIBE && call.GetFrameworkID().GetValue() != "framework-1" {
			t.Errorf("%s without framework id", call.GetType())
		}
	}
	if got, want := strings.Join(kinds, " "), "SUBSCRIBE ACCEPT ACKNOWLEDGE SUPPRESS REVIVE RECONCILE KILL KILL DECLINE"; got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
	if kill := c.AwaitCall(t, 1, scheduler.Call_KILL, nil).GetKill(); kill.KillPolicy != nil {
		t.Errorf("KILL with a policy of its own, %v, want the task's", kill.KillPolicy)
	}
	if grace := c.AwaitCall(t, 2, scheduler.Call_KILL, nil).GetKill().GetKillPolicy().GetGracePeriod(); grace == nil || grace.Nanoseconds != 0 {
		t.Errorf("KILL by force with a grace of %v, want 0", grace)
	}
	task := c.AwaitCall(t, 1, scheduler.Call_ACCEPT, nil).GetAccept().GetOperations()[0].GetLaunch().GetTaskInfos()[0]
	if got := sumResources(task.Resources); got.gpus != 1 || got.devices[0] != "GPU-1" || got.amount.CPUs != 1 ||
		sumResources(task.Executor.Resources).amount.CPUs != 0.1 {
		t.Errorf("task took %+v", got)
	}
}

// TestRefusedCallKeepsSubscription checks that status 400 fails only the call.
func TestRefusedCallKeepsSubscription(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	c.RefuseStatus = func(call *scheduler.Call) int {
		if call.GetType() == scheduler.Call_ACCEPT || call.GetType() == scheduler.Call_DECLINE {
			return http.StatusBadRequest
		}
		return 0
	}
	r := startClient(t, ConnectionConfig{Master: c.URL()})
	offer := nextEvent[sched.OffersReceived](t, r).Offers[0]
	accept := sched.AcceptOffers{
		AgentID:  "agent-1",
		OfferIDs: []string{offer.ID},
		Launches: []sched.TaskLaunch{{TaskID: "t1", Spec: &job.Spec{Name: "t", CPUs: 1, MemMiB: 1}}},
	}
	r.PostOperation(accept)
	if f := nextEvent[sched.AcceptFailed](t, r); !slices.Equal(f.TaskIDs, []string{"t1"}) {
		t.Errorf("failed tasks %v", f.TaskIDs)
	}
	// The offer is used up: a second ACCEPT is not sent.
	r.PostOperation(accept)
	nextEvent[sched.AcceptFailed](t, r)
	r.PostOperation(sched.SuppressOffers{})
	c.AwaitCall(t, 1, scheduler.Call_SUPPRESS, nil)
	if n := len(c.Calls()); n != 2 {
		t.Errorf("%d calls were taken, want SUBSCRIBE and SUPPRESS", n)
	}
	// The client rejects a launch that exceeds the offer, before the master sees it.
	c.SendOffer()
	big := nextEvent[sched.OffersReceived](t, r).Offers[0]
	r.PostOperation(sched.AcceptOffers{
		AgentID:  "agent-1",
		OfferIDs: []string{big.ID},
		Launches: []sched.TaskLaunch{{TaskID: "t2", Spec: &job.Spec{Name: "t", CPUs: 1000, MemMiB: 1}}},
	})
	if f := nextEvent[sched.AcceptFailed](t, r); !slices.Equal(f.TaskIDs, []string{"t2"}) {
		t.Errorf("failed tasks %v", f.TaskIDs)
	}
}

// TestFailedAcceptDeclinesOffers checks that an ACCEPT fails for a rescinded offer or insufficient resources, and
// that the client then declines the agent's other offers.
func TestFailedAcceptDeclinesOffers(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	r := startClient(t, ConnectionConfig{Master: c.URL()})
	offer := nextEvent[sched.OffersReceived](t, r).Offers[0]
	launch := func(cpus float64) []sched.TaskLaunch {
		return []sched.TaskLaunch{{TaskID: "t1", Spec: &job.Spec{Name: "t", CPUs: cpus, MemMiB: 1}}}
	}
	declined := func(n int, want string) {
		t.Helper()
		nextEvent[sched.AcceptFailed](t, r)
		d := c.AwaitCall(t, n, scheduler.Call_DECLINE, nil).GetDecline()
		if len(d.OfferIDs) != 1 || d.OfferIDs[0].Value != want || d.GetFilters().GetRefuseSeconds() != 5 {
			t.Errorf("decline %v, want %s for 5 s", d, want)
		}
	}
	r.PostOperation(sched.AcceptOffers{AgentID: "agent-1", OfferIDs: []string{"rescinded", offer.ID}, Launches: launch(1), Refuse: 5 * time.Second})
	declined(1, offer.ID)
	c.SendOffer()
	second := nextEvent[sched.OffersReceived](t, r).Offers[0]
	r.PostOperation(sched.AcceptOffers{AgentID: "agent-1", OfferIDs: []string{second.ID}, Launches: launch(1000), Refuse: 5 * time.Second})
	declined(2, second.ID)
}

// TestLostSubscriptionIsRenewed checks that the client subscribes again with its id after the stream broke, and after
// the master could not accept a call.
func TestLostSubscriptionIsRenewed(t *testing.T) {
	m := mesostest.NewMaster(t)
	var refused atomic.Int32
	m.RefuseStatus = func(call *scheduler.Call) int {
		if call.GetType() == scheduler.Call_REVIVE {
			refused.Add(1)
			return http.StatusServiceUnavailable
		}
		return 0
	}
	r := startClient(t, ConnectionConfig{Master: m.URL()})
	nextEvent[sched.Subscribed](t, r)
	m.DropSubscription()
	nextEvent[sched.Disconnected](t, r)
	nextEvent[sched.Subscribed](t, r)
	r.PostOperation(sched.ReviveOffers{})
	nextEvent[sched.Disconnected](t, r)
	nextEvent[sched.Subscribed](t, r)
	m.SendEvents(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: "capacity exceeded"}})
	nextEvent[sched.Disconnected](t, r)
	nextEvent[sched.Subscribed](t, r)
	if id := m.AwaitCall(t, 4, scheduler.Call_SUBSCRIBE, nil).GetFrameworkID().GetValue(); id != "framework-1" || refused.Load() != 5 {
		t.Errorf("subscribed again as %q; the call was tried %d times", id, refused.Load())
	}
}

func TestLeaderIsFollowed(t *testing.T) {
	leader, follower := mesostest.NewMaster(t), mesostest.NewMaster(t)
	follower.Leader = leader.URL()
	r := startClient(t, ConnectionConfig{Master: "http://127.0.0.1:1," + follower.URL()})
	nextEvent[sched.Subscribed](t, r)
	r.PostOperation(sched.SuppressOffers{})
	leader.AwaitCall(t, 1, scheduler.Call_SUPPRESS, nil)
	if n := len(follower.Calls()); n != 0 {
		t.Errorf("the follower got %d calls", n)
	}
}

func TestSilentMasterIsDisconnected(t *testing.T) {
	m := mesostest.NewMaster(t)
	m.Heartbeat = 10 * time.Millisecond // announced, but none arrives
	r := startClient(t, ConnectionConfig{Master: m.URL()})
	nextEvent[sched.Subscribed](t, r)
	nextEvent[sched.Disconnected](t, r)
	nextEvent[sched.Subscribed](t, r)
}

func TestRemovedAndReplacedFramework(t *testing.T) {
	for message, want := range map[string]error{"Framework has been removed": ErrRemoved, "Framework failed over": ErrReplaced} {
		t.Run(message, func(t *testing.T) {
			m := mesostest.NewMaster(t)
			r := startClient(t, ConnectionConfig{Master: m.URL(), FrameworkID: "old"})
			nextEvent[sched.Subscribed](t, r)
			m.SendEvents(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: message}})
			if err := r.awaitEnd(t); !errors.Is(err, want) {
				t.Errorf("Run returned %v, want %v", err, want)
			}
			if n := len(m.Calls()); n != 1 {
				t.Errorf("%d calls, want one SUBSCRIBE", n)
			}
		})
	}
}

func TestEventConversion(t *testing.T) {
	m := mesostest.NewMaster(t)
	r := startClient(t, ConnectionConfig{Master: m.URL()})
	agent, executor := mesos.AgentID{Value: "a1"}, mesos.ExecutorID{Value: "e1"}
	nextEvent[sched.Subscribed](t, r)
	m.SendEvents(
		&scheduler.Event{Type: scheduler.Event_HEARTBEAT},
		&scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: &agent, ExecutorID: &executor}},
		&scheduler.Event{Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{OfferID: mesos.OfferID{Value: "o1"}}},
		&scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: &agent}},
	)
	if got := <-r.events; got != (sched.OfferRescinded{OfferID: "o1"}) {
		t.Errorf("got %+v, want the rescind first", got)
	}
	if got := nextEvent[sched.AgentLost](t, r); got.AgentID != "a1" {
		t.Errorf("got lost agent %q", got.AgentID)
	}
}

// TestLargeEvent sends the offers of a large cluster in one event.
func TestLargeEvent(t *testing.T) {
	m := mesostest.NewMaster(t)
	r := startClient(t, ConnectionConfig{Master: m.URL()})
	nextEvent[sched.Subscribed](t, r)
	var offers []mesos.Offer
	for i := range 3000 {
		offers = append(offers, mesos.Offer{
			ID:         mesos.OfferID{Value: fmt.Sprint("o", i)},
			Attributes: []mesos.Attribute{{Name: "note", Type: mesos.TEXT, Text: &mesos.Value_Text{Value: strings.Repeat("x", 2000)}}},
		})
	}
	m.SendEvents(&scheduler.Event{Type: scheduler.Event_OFFERS, Offers: &scheduler.Event_Offers{Offers: offers}})
	if got := nextEvent[sched.OffersReceived](t, r); len(got.Offers) != len(offers) {
		t.Errorf("%d of %d offers", len(got.Offers), len(offers))
	}
}

func TestTeardownOnlyOnRequest(t *testing.T) {
	m := mesostest.NewMaster(t)
	r := startClient(t, ConnectionConfig{Master: m.URL()})
	nextEvent[sched.Subscribed](t, r)
	if err := r.Teardown(context.Background()); err != nil {
		t.Fatal(err)
	}
	m.AwaitCall(t, 1, scheduler.Call_TEARDOWN, nil)
	r.stop()
	if err := r.awaitEnd(t); err != nil {
		t.Fatal(err)
	}
	if err := r.Teardown(context.Background()); !errors.Is(err, ErrNotConnected) {
		t.Errorf("teardown without subscription: %v", err)
	}
	for _, call := range m.Calls()[2:] {
		t.Errorf("unexpected %s", call.GetType())
	}
}

func TestOperatorCalls(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	r := startClient(t, ConnectionConfig{Master: c.URL()})
	ctx := context.Background()
	agents, err := r.ListAgents(ctx)
	if err != nil || len(agents) != 1 || agents[0].GPUs != 2 || agents[0].URL != c.AgentURL() {
		t.Fatalf("agents %+v, %v", agents, err)
	}
	path := SandboxFilePath("f", "e", "stdout")
	c.SetFile(path, "hello world")
	data, size, err := r.ReadFile(ctx, agents[0].URL, path, 6, 3)
	if err != nil || string(data) != "wor" || size != 11 {
		t.Errorf("read %q of %d, %v", data, size, err)
	}
	if data, size, err = r.ReadFile(ctx, agents[0].URL, path, 11, 3); err != nil || len(data) != 0 || size != 11 {
		t.Errorf("read %q of %d at the end, %v", data, size, err)
	}
	if _, _, err = r.ReadFile(ctx, agents[0].URL, path+"x", 0, 1); !errors.Is(err, ErrNoFile) {
		t.Errorf("missing file: %v", err)
	}
	if _, _, err = r.ReadFile(ctx, "", path, 0, 1); !errors.Is(err, ErrNoFile) {
		t.Errorf("unknown agent: %v", err)
	}
	c.Close()
	if _, _, err = r.ReadFile(ctx, agents[0].URL, path, 0, 1); err == nil || errors.Is(err, ErrNoFile) {
		t.Errorf("dead agent: %v", err)
	}
	if _, err = r.ListAgents(ctx); err == nil {
		t.Error("a dead master listed its agents")
	}
}
