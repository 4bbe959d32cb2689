package master

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/internal/mesostest"
	"mesos-gpu/framework/sched"
)

// subscription waits for the nth SUBSCRIBE.
func subscription(t *testing.T, m *mesostest.Master, n int) (roles, suppressed []string) {
	t.Helper()
	s := m.Await(t, n, scheduler.Call_SUBSCRIBE, nil).GetSubscribe()
	return s.GetFrameworkInfo().Roles, s.GetSuppressedRoles()
}

// TestRolesAreToldAnew: each SUBSCRIBE says what was last said of roles, also
// what was said while there was no subscription.
func TestRolesAreToldAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, c *mesostest.Cluster, begin func(Config) *running) {
		m := c.Master
		r := begin(Config{Roles: []string{"a", "b", "a"}})
		r.Post(sched.Suppress{Roles: []string{"b"}}) // may come before SUBSCRIBED
		next[sched.Subscribed](t, r)
		expect := func(n int, roles, suppressed []string) {
			t.Helper()
			gotRoles, gotSuppressed := subscription(t, m, n)
			if !slices.Equal(gotRoles, roles) || !slices.Equal(gotSuppressed, suppressed) {
				t.Errorf("SUBSCRIBE %d: roles %v, suppressed %v, want %v and %v", n, gotRoles, gotSuppressed, roles, suppressed)
			}
		}
		again := func() {
			t.Helper()
			m.Drop()
			next[sched.Disconnected](t, r)
		}
		again()
		next[sched.Subscribed](t, r)
		expect(2, []string{"a", "b"}, []string{"b"})
		again()
		r.Post(sched.Revive{})
		r.Post(sched.Suppress{Roles: []string{"a"}})
		next[sched.Subscribed](t, r)
		expect(3, []string{"a", "b"}, []string{"a"})
		r.Post(sched.SetRoles{Roles: []string{"b", "c"}})
		// The first post may have made one of its own, had it come amid SUBSCRIBE.
		told := func(c *scheduler.Call) bool {
			return slices.Equal(c.GetUpdateFramework().GetFrameworkInfo().Roles, []string{"b", "c"})
		}
		update := m.Await(t, 1, scheduler.Call_UPDATE_FRAMEWORK, told).GetUpdateFramework()
		if info := update.GetFrameworkInfo(); info.GetID().GetValue() != "framework-1" || len(update.SuppressedRoles) != 0 {
			t.Errorf("update says roles %v, id %v, suppressed %v", info.Roles, info.GetID(), update.SuppressedRoles)
		}
		again()
		next[sched.Subscribed](t, r)
		expect(4, []string{"b", "c"}, nil) // a is no role any more
		r.Post(sched.Suppress{})
		m.Await(t, 1, scheduler.Call_SUPPRESS, nil)
		again()
		next[sched.Subscribed](t, r)
		expect(5, []string{"b", "c"}, []string{"b", "c"})
	})
}

// TestRolesToldDuringSubscribe: the master hears of them once it listens.
func TestRolesToldDuringSubscribe(t *testing.T) {
	inBubble(t, func(t *testing.T, c *mesostest.Cluster, begin func(Config) *running) {
		underWay, goOn := make(chan struct{}), make(chan struct{})
		c.Refuse = func(call *scheduler.Call) int {
			if call.GetType() == scheduler.Call_SUBSCRIBE {
				close(underWay)
				<-goOn
			}
			return 0
		}
		r := begin(Config{Roles: []string{"a", "b"}})
		<-underWay
		r.Post(sched.Suppress{Roles: []string{"b"}})
		close(goOn)
		update := c.Await(t, 1, scheduler.Call_UPDATE_FRAMEWORK, nil).GetUpdateFramework()
		if !slices.Equal(update.SuppressedRoles, []string{"b"}) {
			t.Errorf("suppressed %v, want b", update.SuppressedRoles)
		}
	})
}

// TestRefusedRolesAreTakenBack: else no SUBSCRIBE would succeed any more.
func TestRefusedRolesAreTakenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, c *mesostest.Cluster, begin func(Config) *running) {
		refuse(c, scheduler.Call_UPDATE_FRAMEWORK, http.StatusForbidden, "Not authorized to register framework with roles")
		r := begin(Config{Roles: []string{"a"}})
		next[sched.Subscribed](t, r)
		r.Post(sched.SetRoles{Roles: []string{"a", "theirs"}})
		synctest.Wait()
		c.Drop()
		next[sched.Disconnected](t, r)
		next[sched.Subscribed](t, r)
		if roles, _ := subscription(t, c.Master, 2); !slices.Equal(roles, []string{"a"}) {
			t.Errorf("subscribed again with roles %v", roles)
		}
	})
}

// TestRoleCalls: the calls that name roles, and those of maintenance.
func TestRoleCalls(t *testing.T) {
	m := mesostest.New(t)
	r := start(t, Config{Master: m.URL(), Roles: []string{"a", "b"}})
	next[sched.Subscribed](t, r)
	for _, op := range []sched.Op{
		sched.Suppress{Roles: []string{"b"}}, sched.Revive{Roles: []string{"a", "b"}},
		sched.KillTask{TaskID: "t1", AgentID: "a1"},
		sched.AnswerInverse{OfferIDs: []string{"i1", "i2"}, Accept: true, Refuse: time.Minute},
		sched.AnswerInverse{OfferIDs: []string{"i3"}},
	} {
		r.Post(op)
	}
	if got := m.Await(t, 1, scheduler.Call_SUPPRESS, nil).GetSuppress().Roles; !slices.Equal(got, []string{"b"}) {
		t.Errorf("suppressed %v", got)
	}
	if got := m.Await(t, 1, scheduler.Call_REVIVE, nil).GetRevive().Roles; !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("revived %v", got)
	}
	kill := m.Await(t, 1, scheduler.Call_KILL, nil).GetKill()
	if kill.GetTaskID().Value != "t1" || kill.GetAgentID().GetValue() != "a1" {
		t.Errorf("kill %v", kill)
	}
	accept := m.Await(t, 1, scheduler.Call_ACCEPT_INVERSE_OFFERS, nil).GetAcceptInverseOffers()
	if len(accept.InverseOfferIDs) != 2 || accept.InverseOfferIDs[1].Value != "i2" || accept.GetFilters().GetRefuseSeconds() != 60 {
		t.Errorf("accept %v", accept)
	}
	decline := m.Await(t, 1, scheduler.Call_DECLINE_INVERSE_OFFERS, nil).GetDeclineInverseOffers()
	if len(decline.InverseOfferIDs) != 1 || decline.InverseOfferIDs[0].Value != "i3" {
		t.Errorf("decline %v", decline)
	}
}

// TestMaintenanceEvents: inverse offers, and tasks that a drain ended.
func TestMaintenanceEvents(t *testing.T) {
	m := mesostest.New(t)
	r := start(t, Config{Master: m.URL()})
	next[sched.Subscribed](t, r)
	begin := time.Unix(1_800_000_000, 5)
	drained, gone, killed := mesos.REASON_AGENT_DRAINING, mesos.TASK_GONE_BY_OPERATOR, mesos.TASK_KILLED
	m.Send(
		&scheduler.Event{Type: scheduler.Event_INVERSE_OFFERS, InverseOffers: &scheduler.Event_InverseOffers{InverseOffers: []mesos.InverseOffer{
			{OfferID: mesos.OfferID{Value: "i1"}, AgentID: &mesos.AgentID{Value: "a1"}, Unavailability: mesos.Unavailability{Start: mesos.TimeInfo{Nanoseconds: begin.UnixNano()}, Duration: duration(time.Hour)}},
		}}},
		&scheduler.Event{Type: scheduler.Event_UPDATE, Update: &scheduler.Event_Update{Status: mesos.TaskStatus{TaskID: mesos.TaskID{Value: "t1"}, State: &gone, Reason: &drained}}},
		&scheduler.Event{Type: scheduler.Event_UPDATE, Update: &scheduler.Event_Update{Status: mesos.TaskStatus{TaskID: mesos.TaskID{Value: "t2"}, State: &killed}}},
	)
	if got := next[sched.InverseOffers](t, r).Offers; len(got) != 1 || got[0] != (sched.InverseOffer{ID: "i1", AgentID: "a1", Start: begin, Duration: time.Hour}) {
		t.Errorf("inverse offers %+v", got)
	}
	if got := next[sched.Update](t, r); !got.Drained || got.TaskID != "t1" {
		t.Errorf("update %+v, want a drained one", got)
	}
	if got := next[sched.Update](t, r); got.Drained {
		t.Errorf("update %+v counts as drained", got)
	}
}
