package master

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

func TestSubscribed(t *testing.T) {
	m := New(MasterConfig{Addr: "127.0.0.1:1234", heartbeatInterval: 3 * time.Second})
	call := &scheduler.Call{Type: scheduler.Call_SUBSCRIBE, Subscribe: &scheduler.Call_Subscribe{FrameworkInfo: info()}}
	s, _ := open[scheduler.Event](t, m, "/master/api/v1/scheduler", call)
	got := <-s.events
	if got.Type != scheduler.Event_SUBSCRIBED || got.Subscribed.GetHeartbeatIntervalSeconds() != 3 ||
		!strings.HasSuffix(got.Subscribed.FrameworkID.Value, "-0000") || got.Subscribed.MasterInfo.GetPort() != 1234 ||
		got.Subscribed.MasterInfo.IP != 16777343 {
		t.Errorf("got %v", got)
	}
	if len(s.header.Get("Mesos-Stream-Id")) != 36 {
		t.Errorf("stream id %q is no uuid", s.header.Get("Mesos-Stream-Id"))
	}
	if got := <-s.events; got.Type != scheduler.Event_HEARTBEAT {
		t.Errorf("got %v, want a heartbeat", got)
	}
}

func TestSubscriptionRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*mesos.FrameworkInfo)
		want   string
	}{
		{"role with MULTI_ROLE", func(f *mesos.FrameworkInfo) { f.Role = proto.String("a") }, "must not be set"},
		{"roles without MULTI_ROLE", func(f *mesos.FrameworkInfo) { f.Capabilities = nil }, "must not be set"},
		{"invalid role", func(f *mesos.FrameworkInfo) { f.Roles = []string{"a b"} }, "whitespace"},
		{"invalid timeout", func(f *mesos.FrameworkInfo) { f.FailoverTimeout = proto.Float64(1e300) }, "failover_timeout"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := info()
			tc.change(f)
			c := subscribe(t, New(MasterConfig{}), f)
			if got := c.event(t, scheduler.Event_ERROR).Error.Message; !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want something about %q", got, tc.want)
			}
			<-c.ended
		})
	}
}

func TestFailoverClosesOldStream(t *testing.T) {
	m := New(MasterConfig{})
	old := subscribe(t, m, info())
	a := register(t, m, cpuAgent)
	old.accept(t, 0, old.offers(t), launch(taskInfo("t", a.id, "cpus:1")))
	again := info()
	again.ID = old.id
	again.Name = "second"
	c := subscribe(t, m, again)
	if got := old.event(t, scheduler.Event_ERROR).Error.Message; got != "Framework failed over" {
		t.Errorf("got %q", got)
	}
	<-old.ended
	if *c.id != *old.id {
		t.Errorf("got id %v, want %v", c.id, old.id)
	}
	// The end of the old stream does not disconnect the framework.
	uuid := a.status(m, c.id, "t", mesos.TASK_RUNNING)
	if got := c.update(t, "t"); got.GetState() != mesos.TASK_RUNNING {
		t.Errorf("got %v", got)
	}
	if got := old.post(t, http.StatusBadRequest, &scheduler.Call{Type: scheduler.Call_REVIVE}); !strings.Contains(got, "didn't match") {
		t.Errorf("call on the old stream: got %q", got)
	}
	c.acknowledge(t, a, "t", uuid)
	a.wants(t, "acknowledge t 16")
	if got := m.frameworks[c.id.Value].info.Name; got != "second" {
		t.Errorf("name is %q, want the new one", got)
	}
}

func TestFailoverTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(MasterConfig{})
		c := subscribe(t, m, info()) // 60 s
		a := register(t, m, cpuAgent)
		c.accept(t, 0, c.offers(t), launch(taskInfo("t", a.id, "cpus:1")))
		a.nextRun(t)
		c.disconnect()
		if n := len(m.offers); n != 0 {
			t.Errorf("%d offers outlive the connection", n)
		}
		c.post(t, http.StatusForbidden, &scheduler.Call{Type: scheduler.Call_REVIVE})
		a.status(m, c.id, "t", mesos.TASK_RUNNING) // without a subscriber the state is kept

		time.Sleep(59 * time.Second)
		back := info()
		back.ID = c.id
		c = subscribe(t, m, back)
		c.post(t, http.StatusAccepted, &scheduler.Call{Type: scheduler.Call_RECONCILE, Reconcile: &scheduler.Call_Reconcile{}})
		if got := c.update(t, "t"); got.GetState() != mesos.TASK_RUNNING {
			t.Errorf("after failover: got %v", got)
		}
		time.Sleep(time.Hour) // the timer does not run while connected
		c.disconnect()
		time.Sleep(61 * time.Second)
		a.wants(t, "shutdown framework")
		c = subscribe(t, m, back)
		if got := c.event(t, scheduler.Event_ERROR).Error.Message; got != "Framework has been removed" {
			t.Errorf("got %q", got)
		}
		if done := m.completed[0].completed; len(done) != 1 || done[0].GetState() != mesos.TASK_KILLED {
			t.Errorf("completed tasks: %v", done)
		}
	})
}

func TestTeardownKeepsResourcesUntilExecutorsExit(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info())
	a := register(t, m, gpuAgent)
	c.accept(t, 0, c.offers(t), launch(custom(taskInfo("t", a.id, "cpus:4;gpus:2;gpu_ids:{A,B}"), "e", "mem:4096")))
	a.nextRun(t)
	c.post(t, http.StatusAccepted, &scheduler.Call{Type: scheduler.Call_TEARDOWN})
	<-c.ended
	a.wants(t, "shutdown framework")
	next := subscribe(t, m, info())
	m.withLock(m.allocateAll)
	next.quiet(t, scheduler.Event_OFFERS)
	m.ExecutorExited(a.id, *c.id, mesos.ExecutorID{Value: "e"}, 0)
	m.withLock(m.allocateAll)
	if got := next.offers(t); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestNoFailoverTimeoutRemovesAtOnce(t *testing.T) {
	m := New(MasterConfig{})
	f := info()
	f.FailoverTimeout = nil
	c := subscribe(t, m, f)
	a := register(t, m, cpuAgent)
	c.disconnect()
	a.wants(t, "shutdown framework")
	c.post(t, http.StatusBadRequest, &scheduler.Call{Type: scheduler.Call_REVIVE})
}

func TestUpdateFramework(t *testing.T) {
	m := New(MasterConfig{})
	f := info()
	f.Roles = []string{"a", "b"}
	c := subscribe(t, m, f, "b")
	register(t, m, cpuAgent)
	if got := c.offers(t)[0].AllocationInfo.GetRole(); got != "a" {
		t.Errorf("got an offer for role %q, want a, as b is suppressed", got)
	}
	f.ID, f.Roles = c.id, []string{"b", "c"}
	update := func(suppressed ...string) *scheduler.Call {
		return &scheduler.Call{Type: scheduler.Call_UPDATE_FRAMEWORK, UpdateFramework: &scheduler.Call_UpdateFramework{
			FrameworkInfo: *f, SuppressedRoles: suppressed,
		}}
	}
	c.post(t, http.StatusBadRequest, update("a"))
	c.post(t, http.StatusOK, update("b"))
	c.event(t, scheduler.Event_RESCIND)
	if got := c.offers(t)[0].AllocationInfo.GetRole(); got != "c" {
		t.Errorf("got an offer for role %q, want c", got)
	}
	f.User = "other"
	c.post(t, http.StatusBadRequest, update())
}

func TestHeartbeatsAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(MasterConfig{heartbeatInterval: 15 * time.Second})
		ctx, cancel := contextOf(t)
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		c := subscribe(t, m, info())
		a := register(t, m, cpuAgent)
		begin := time.Now()
		c.event(t, scheduler.Event_HEARTBEAT) // the one at once
		c.offers(t)
		time.Sleep(14 * time.Second)
		c.quiet(t, scheduler.Event_HEARTBEAT)
		c.event(t, scheduler.Event_HEARTBEAT)
		if d := time.Since(begin); d < 15*time.Second || d > 16*time.Second {
			t.Errorf("heartbeat after %v, want 15 s", d)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		<-c.ended
		c.post(t, http.StatusServiceUnavailable, &scheduler.Call{Type: scheduler.Call_REVIVE})
		if _, err := m.Register(agentInfo(), nil, nil, a); err == nil {
			t.Error("a stopped master registered an agent")
		}
		if len(a.other) != 0 {
			t.Errorf("agent was told %q at the end", <-a.other)
		}
	})
}
