package checklist

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/internal/testing/faultproxy"
	"mesos-gpu/job"
)

// withRoles configures two roles.
func withRoles(c *framework.SchedulerConfig) {
	c.Sched.Policy.Roles = []queue.Role{{Name: "prod"}, {Name: "research"}}
}

func (w *testEnv) newSpecWithRole(role, name string, gpus int) job.Spec {
	s := w.newSpec(name, gpus)
	s.Role = role
	return s
}

func TestMesos25_SuppressedRolesAreRepeatedOnSubscribe(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(withRoles)
	in.submit(w.newSpecWithRole("prod", "done", 1))
	in.awaitTask("done", job.Running)
	w.finishTasks("done")
	in.awaitTask("done", job.Finished)
	in.submit(w.newSpecWithRole("research", "waits", 5)) // larger than any agent
	w.awaitCall(1, scheduler.Call_REVIVE, func(c faultproxy.RecordedCall) bool { return slices.Contains(c.GetRevive().GetRoles(), "research") })
	w.awaitCondition("prod to be suppressed", func() bool { return w.isRoleSuppressed("prod") && !w.isRoleSuppressed("research") })
	w.CutStream()
	again := w.awaitCall(2, scheduler.Call_SUBSCRIBE, nil)
	if diff := cmp.Diff([]string{"prod"}, again.Subscribe.SuppressedRoles); diff != "" {
		t.Errorf("suppressed roles: %s", diff)
	}
}

// isRoleSuppressed reports whether the framework's latest call about a role suppressed its
// offers.
func (w *testEnv) isRoleSuppressed(role string) bool {
	silent := false
	about := func(roles []string) bool { return len(roles) == 0 || slices.Contains(roles, role) }
	for _, c := range w.Calls() {
		switch {
		case c.GetType() == scheduler.Call_SUBSCRIBE:
			silent = slices.Contains(c.Subscribe.SuppressedRoles, role)
		case c.GetType() == scheduler.Call_SUPPRESS && about(c.GetSuppress().GetRoles()):
			silent = true
		case c.GetType() == scheduler.Call_REVIVE && about(c.GetRevive().GetRoles()):
			silent = false
		}
	}
	return silent
}

func TestMesos26_TasksCarryTheirOffersRole(t *testing.T) {
	w := newTestEnv(t, gpuAgent, otherGPUs)
	in := w.startScheduler(withRoles)
	info := w.awaitCall(1, scheduler.Call_SUBSCRIBE, nil).Subscribe.FrameworkInfo
	if diff := cmp.Diff([]string{"prod", "research"}, info.Roles); diff != "" || !hasCapability(info, mesos.FrameworkInfo_Capability_MULTI_ROLE) {
		t.Errorf("roles %s, capabilities %v", diff, info.Capabilities)
	}
	for _, role := range info.Roles {
		in.submit(w.newSpecWithRole(role, "a-"+role, 1), w.newSpecWithRole(role, "b-"+role, 0))
	}
	for _, role := range info.Roles {
		for _, name := range []string{"a-", "b-"} {
			id := in.awaitTask(name+role, job.Running).ID
			w.checkLaunchRole(id, role)
		}
	}
}

// checkLaunchRole checks the role of the offers in the ACCEPT that launched a task.
func (w *testEnv) checkLaunchRole(id, role string) {
	w.t.Helper()
	accept := w.awaitCall(1, scheduler.Call_ACCEPT, isLaunchOf(id))
	offered := w.offerEvents()
	for _, offer := range accept.Accept.OfferIDs {
		for _, o := range offered[offer].GetOffers().GetOffers() {
			if o.ID == offer && o.GetAllocationInfo().GetRole() != role {
				w.t.Errorf("task %s of role %s takes an offer to %s", id, role, o.GetAllocationInfo().GetRole())
			}
		}
	}
	for _, op := range accept.Accept.Operations {
		for _, task := range op.GetLaunch().GetTaskInfos() {
			for _, r := range append(task.Resources, task.Executor.Resources...) {
				if r.GetAllocationInfo().GetRole() != role {
					w.t.Errorf("task %s of role %s takes %s allocated to %q", task.TaskID.Value, role, r.Name, r.GetAllocationInfo().GetRole())
				}
			}
		}
	}
}

func hasCapability(info *mesos.FrameworkInfo, capability mesos.FrameworkInfo_Capability_Type) bool {
	return slices.ContainsFunc(info.Capabilities, func(c mesos.FrameworkInfo_Capability) bool { return c.Type == capability })
}

// Roles change while a scheduler runs; this test changes them in the master client.
func TestMesos27_RolesChangeWithoutANewSubscription(t *testing.T) {
	w := newTestEnv(t, gpuAgent, otherGPUs)
	c := w.newMasterClient(func(c *master.ConnectionConfig) { c.Roles = []string{"prod", "research"} })
	offers := map[string]bool{} // outstanding offers by id
	var rescinded []string
	c.awaitEvent("offers", func(ev sched.Event) bool {
		if o, ok := ev.(sched.OffersReceived); ok {
			for _, offer := range o.Offers {
				offers[offer.ID] = true
			}
		}
		return len(offers) == 2 // one for each role
	})
	c.PostOperation(sched.SetRoles{Roles: []string{"prod"}})
	changed := w.awaitCall(1, scheduler.Call_UPDATE_FRAMEWORK, nil)
	if diff := cmp.Diff([]string{"prod"}, changed.UpdateFramework.FrameworkInfo.Roles); diff != "" {
		t.Errorf("roles: %s", diff)
	}
	c.awaitEvent("a rescinded offer", func(ev sched.Event) bool {
		if r, ok := ev.(sched.OfferRescinded); ok {
			rescinded = append(rescinded, r.OfferID)
		}
		return len(rescinded) == 1
	})
	role := ""
	for _, o := range w.offerEvents()[mesos.OfferID{Value: rescinded[0]}].GetOffers().GetOffers() {
		if o.ID.Value == rescinded[0] {
			role = o.GetAllocationInfo().GetRole()
		}
	}
	if role != "research" {
		t.Errorf("the offer to %q was rescinded, want that to research", role)
	}
	if n := len(w.listCalls(scheduler.Call_SUBSCRIBE, nil)); n != 1 {
		t.Errorf("%d subscriptions, want 1", n)
	}
}

// Weights of roles are set in the master where they differ; a role without a weight has 1.
func TestMesos47_WeightsOfRolesAreSet(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	w.startScheduler(func(c *framework.SchedulerConfig) {
		c.Sched.Policy.Roles = []queue.Role{{Name: "prod", Weight: 3}, {Name: "research"}}
	})
	c := w.newMasterClient(func(*master.ConnectionConfig) {})
	w.awaitCondition("the master to have the weights", func() bool {
		weights, err := c.ListWeights(t.Context(), slices.Values([]string{"prod", "research"}))
		return err == nil && cmp.Equal(map[string]float64{"prod": 3, "research": 1}, weights)
	})
}

// masterClient is the scheduler's master client, with the events that it has emitted.
type masterClient struct {
	*master.Client
	t      testing.TB
	mu     sync.Mutex
	events []sched.Event
	more   chan struct{}
}

func (w *testEnv) newMasterClient(change func(*master.ConnectionConfig)) *masterClient {
	w.t.Helper()
	cfg := master.ConnectionConfig{Master: w.server.URL, Name: "checklist", User: "root", ExecutorPath: "/usr/bin/mesos-gpu", Log: newLogger(w.t, "client")}
	change(&cfg)
	m, err := master.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &masterClient{Client: m, t: w.t, more: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.Run(ctx, c.emit) }()
	w.t.Cleanup(func() { cancel(); <-ended; m.Close() })
	return c
}

func (c *masterClient) emit(ev sched.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, ev)
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// awaitEvent passes each event to done, once, until done returns true.
func (c *masterClient) awaitEvent(what string, done func(sched.Event) bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	for {
		c.mu.Lock()
		events := c.events
		c.events = nil
		c.mu.Unlock()
		for n, ev := range events {
			if done(ev) {
				c.mu.Lock()
				c.events = append(events[n+1:], c.events...)
				c.mu.Unlock()
				return
			}
		}
		select {
		case <-c.more:
		case <-ctx.Done():
			c.t.Fatalf("waited %s for %s", waitTimeout, what)
		}
	}
}
