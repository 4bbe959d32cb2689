package master

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/mesostest"
)

// awaitSubscribe waits for the nth SUBSCRIBE and returns its roles.
func awaitSubscribe(t *testing.T, m *mesostest.FakeMaster, n int) (roles, suppressed []string) {
	t.Helper()
	s := m.AwaitCall(t, n, scheduler.Call_SUBSCRIBE, nil).GetSubscribe()
	return s.GetFrameworkInfo().Roles, s.GetSuppressedRoles()
}

// TestSubscribeRepeatsRoles checks that each SUBSCRIBE has the latest roles and suppressed roles, also those set
// without a subscription.
func TestSubscribeRepeatsRoles(t *testing.T) {
	runInBubble(t, func(t *testing.T, c *mesostest.FakeCluster, begin func(ConnectionConfig) *runningClient) {
		m := c.FakeMaster
		r := begin(ConnectionConfig{Roles: []string{"a", "b", "a"}})
		r.PostOperation(sched.SuppressOffers{Roles: []string{"b"}}) // may be posted before SUBSCRIBED
		nextEvent[sched.Subscribed](t, r)
		expect := func(n int, roles, suppressed []string) {
			t.Helper()
			gotRoles, gotSuppressed := awaitSubscribe(t, m, n)
			if !slices.Equal(gotRoles, roles) || !slices.Equal(gotSuppressed, suppressed) {
				t.Errorf("SUBSCRIBE %d: roles %v, suppressed %v, want %v and %v", n, gotRoles, gotSuppressed, roles, suppressed)
			}
		}
		again := func() {
			t.Helper()
			m.DropSubscription()
			nextEvent[sched.Disconnected](t, r)
		}
		again()
		nextEvent[sched.Subscribed](t, r)
		expect(2, []string{"a", "b"}, []string{"b"})
		again()
		r.PostOperation(sched.ReviveOffers{})
		r.PostOperation(sched.SuppressOffers{Roles: []string{"a"}})
		nextEvent[sched.Subscribed](t, r)
		expect(3, []string{"a", "b"}, []string{"a"})
		r.PostOperation(sched.SetRoles{Roles: []string{"b", "c"}})
		// The first posted operation may also have caused an UPDATE_FRAMEWORK, if it was posted during SUBSCRIBE.
		told := func(c *scheduler.Call) bool {
			return slices.Equal(c.GetUpdateFramework().GetFrameworkInfo().Roles, []string{"b", "c"})
		}
		update := m.AwaitCall(t, 1, scheduler.Call_UPDATE_FRAMEWORK, told).GetUpdateFramework()
		if info := update.GetFrameworkInfo(); info.GetID().GetValue() != "framework-1" || len(update.SuppressedRoles) != 0 {
			t.Errorf("update says roles %v, id %v, suppressed %v", info.Roles, info.GetID(), update.SuppressedRoles)
		}
		again()
		nextEvent[sched.Subscribed](t, r)
		expect(4, []string{"b", "c"}, nil) // a is not a role any more
		r.PostOperation(sched.SuppressOffers{})
		m.AwaitCall(t, 1, scheduler.Call_SUPPRESS, nil)
		again()
		nextEvent[sched.Subscribed](t, r)
		expect(5, []string{"b", "c"}, []string{"b", "c"})
	})
}

// TestRolesChangedDuringSubscribe checks that roles which change during SUBSCRIBE are sent after it.
func TestRolesChangedDuringSubscribe(t *testing.T) {
	runInBubble(t, func(t *testing.T, c *mesostest.FakeCluster, begin func(ConnectionConfig) *runningClient) {
		underWay, goOn := make(chan struct{}), make(chan struct{})
		c.RefuseStatus = func(call *scheduler.Call) int {
			if call.GetType() == scheduler.Call_SUBSCRIBE {
				close(underWay)
				<-goOn
			}
			return 0
		}
		r := begin(ConnectionConfig{Roles: []string{"a", "b"}})
		<-underWay
		r.PostOperation(sched.SuppressOffers{Roles: []string{"b"}})
		close(goOn)
		update := c.AwaitCall(t, 1, scheduler.Call_UPDATE_FRAMEWORK, nil).GetUpdateFramework()
		if !slices.Equal(update.SuppressedRoles, []string{"b"}) {
			t.Errorf("suppressed %v, want b", update.SuppressedRoles)
		}
	})
}

// TestRefusedRolesAreReverted checks that the client drops roles that the master refuses. Otherwise every later
// SUBSCRIBE would fail.
func TestRefusedRolesAreReverted(t *testing.T) {
	runInBubble(t, func(t *testing.T, c *mesostest.FakeCluster, begin func(ConnectionConfig) *runningClient) {
		refuseCalls(c, scheduler.Call_UPDATE_FRAMEWORK, http.StatusForbidden, "Not authorized to register framework with roles")
		r := begin(ConnectionConfig{Roles: []string{"a"}})
		nextEvent[sched.Subscribed](t, r)
		r.PostOperation(sched.SetRoles{Roles: []string{"a", "theirs"}})
		synctest.Wait()
		c.DropSubscription()
		nextEvent[sched.Disconnected](t, r)
		nextEvent[sched.Subscribed](t, r)
		if roles, _ := awaitSubscribe(t, c.FakeMaster, 2); !slices.Equal(roles, []string{"a"}) {
			t.Errorf("subscribed again with roles %v", roles)
		}
	})
}

// TestRoleCalls covers the calls that name roles, and those for maintenance.
func TestRoleCalls(t *testing.T) {
	m := mesostest.NewMaster(t)
	r := startClient(t, ConnectionConfig{Master: m.URL(), Roles: []string{"a", "b"}})
	nextEvent[sched.Subscribed](t, r)
	for _, op := range []sched.Operation{
		sched.SuppressOffers{Roles: []string{"b"}}, sched.ReviveOffers{Roles: []string{"a", "b"}},
		sched.KillTask{TaskID: "t1", AgentID: "a1"},
		sched.AnswerInverseOffers{OfferIDs: []string{"i1", "i2"}, Accept: true, Refuse: time.Minute},
		sched.AnswerInverseOffers{OfferIDs: []string{"i3"}},
	} {
		r.PostOperation(op)
	}
	if got := m.AwaitCall(t, 1, scheduler.Call_SUPPRESS, nil).GetSuppress().Roles; !slices.Equal(got, []string{"b"}) {
		t.Errorf("suppressed %v", got)
	}
	if got := m.AwaitCall(t, 1, scheduler.Call_REVIVE, nil).GetRevive().Roles; !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("revived %v", got)
	}
	kill := m.AwaitCall(t, 1, scheduler.Call_KILL, nil).GetKill()
	if kill.GetTaskID().Value != "t1" || kill.GetAgentID().GetValue() != "a1" {
		t.Errorf("kill %v", kill)
	}
	accept := m.AwaitCall(t, 1, scheduler.Call_ACCEPT_INVERSE_OFFERS, nil).GetAcceptInverseOffers()
	if len(accept.InverseOfferIDs) != 2 || accept.InverseOfferIDs[1].Value != "i2" || accept.GetFilters().GetRefuseSeconds() != 60 {
		t.Errorf("accept %v", accept)
	}
	decline := m.AwaitCall(t, 1, scheduler.Call_DECLINE_INVERSE_OFFERS, nil).GetDeclineInverseOffers()
	if len(decline.InverseOfferIDs) != 1 || decline.InverseOfferIDs[0].Value != "i3" {
		t.Errorf("decline %v", decline)
	}
}

// TestMaintenanceEvents covers inverse offers, and tasks that a drain ended.
func TestMaintenanceEvents(t *testing.T) {
	m := mesostest.NewMaster(t)
	r := startClient(t, ConnectionConfig{Master: m.URL()})
	nextEvent[sched.Subscribed](t, r)
	begin := time.Unix(1_800_000_000, 5)
	drained, gone, killed := mesos.REASON_AGENT_DRAINING, mesos.TASK_GONE_BY_OPERATOR, mesos.TASK_KILLED
	m.SendEvents(
		&scheduler.Event{Type: scheduler.Event_INVERSE_OFFERS, InverseOffers: &scheduler.Event_InverseOffers{InverseOffers: []mesos.InverseOffer{
			{OfferID: mesos.OfferID{Value: "i1"}, AgentID: &mesos.AgentID{Value: "a1"}, Unavailability: mesos.Unavailability{
				Start:    mesos.TimeInfo{Nanoseconds: begin.UnixNano()},
				Duration: durationInfo(time.Hour),
			}},
		}}},
		&scheduler.Event{
			Type:   scheduler.Event_UPDATE,
			Update: &scheduler.Event_Update{Status: mesos.TaskStatus{TaskID: mesos.TaskID{Value: "t1"}, State: &gone, Reason: &drained}},
		},
		&scheduler.Event{Type: scheduler.Event_UPDATE, Update: &scheduler.Event_Update{Status: mesos.TaskStatus{TaskID: mesos.TaskID{Value: "t2"}, State: &killed}}},
	)
	if got := nextEvent[sched.InverseOffersReceived](t, r).Offers; len(got) != 1 ||
		got[0] != (sched.InverseOffer{ID: "i1", AgentID: "a1", Start: begin, Duration: time.Hour}) {
		t.Errorf("inverse offers %+v", got)
	}
	if got := nextEvent[sched.TaskUpdate](t, r); !got.Drained || got.TaskID != "t1" {
		t.Errorf("update %+v, want a drained one", got)
	}
	if got := nextEvent[sched.TaskUpdate](t, r); got.Drained {
		t.Errorf("update %+v counts as drained", got)
	}
}
