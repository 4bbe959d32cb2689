package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mastermsg "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/mesostest"
)

// TestWatchAgents checks that the list is requested every ten seconds, and at once if an event reports an unknown
// agent or the loss of one, but never more than once a second.
func TestWatchAgents(t *testing.T) {
	runInBubble(t, func(t *testing.T, m *mesostest.FakeCluster, begin func(ConnectionConfig) *runningClient) {
		r := begin(ConnectionConfig{})
		nextEvent[sched.OffersReceived](t, r) // of agent-1, which is not known yet; the first list contains it
		ctx, cancel := context.WithCancel(t.Context())
		lists, done := make(chan []ListedAgent, 100), make(chan error)
		go func() { done <- r.WatchAgents(ctx, func(a []ListedAgent) { lists <- a }) }()
		if first := <-lists; len(first) != 1 || first[0].ID != "agent-1" {
			t.Errorf("first list %+v", first)
		}
		<-lists // requested because of the first offer
		within := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			<-lists
			if took := time.Since(began); took != want {
				t.Errorf("the next list was requested after %s, want %s", took, want)
			}
		}
		within(10 * time.Second)
		within(10 * time.Second)
		m.SendEvents(&scheduler.Event{
			Type:   scheduler.Event_OFFERS,
			Offers: &scheduler.Event_Offers{Offers: []mesos.Offer{{AgentID: mesos.AgentID{Value: "agent-2"}}}},
		})
		within(time.Second)
		m.SendOffer() // of agents that are known now
		within(10 * time.Second)
		time.Sleep(5 * time.Second)
		m.SendEvents(&scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: &mesos.AgentID{Value: "agent-2"}}})
		within(0)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestWatchAgentsLimitsLoad uses a master that takes long to answer.
func TestWatchAgentsLimitsLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newAgentListTrigger()
		for took, want := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Second: 50 * time.Second, time.Minute: 5 * time.Minute} {
			soon, most := listPauses(10*time.Second, took)
			began := time.Now()
			n.waitForChange(t.Context(), soon, most)
			if got := time.Since(began); got != want {
				t.Errorf("after a list that took %s the next was requested after %s, want %s", took, got, want)
			}
		}
		n.notify()
		began := time.Now()
		n.waitForChange(t.Context(), 5*time.Second, time.Minute)
		if got := time.Since(began); got != 5*time.Second {
			t.Errorf("news were followed after %s, want 5s", got)
		}
	})
}

// TestDrainingAgents checks that drained, draining and deactivated agents accept no tasks.
func TestDrainingAgents(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	pid, yes := "slave(1)@127.0.0.1:1", true
	agent := func(id string, change func(*mastermsg.Response_GetAgents_Agent)) {
		a := mastermsg.Response_GetAgents_Agent{AgentInfo: mesos.AgentInfo{ID: &mesos.AgentID{Value: id}, Hostname: id, Domain: &mesos.DomainInfo{
			FaultDomain: &mesos.DomainInfo_FaultDomain{
				Region: mesos.DomainInfo_FaultDomain_RegionInfo{Name: "eu"},
				Zone:   mesos.DomainInfo_FaultDomain_ZoneInfo{Name: "eu-1"},
			},
		}}, PID: &pid, Active: true}
		change(&a)
		c.Agents.Agents = append(c.Agents.Agents, a)
	}
	agent("draining", func(a *mastermsg.Response_GetAgents_Agent) {
		a.DrainInfo = &mesos.DrainInfo{State: mesos.DrainState_DRAINING}
	})
	agent("drained", func(a *mastermsg.Response_GetAgents_Agent) {
		a.DrainInfo, a.Deactivated = &mesos.DrainInfo{State: mesos.DrainState_DRAINED}, &yes
	})
	agent("deactivated", func(a *mastermsg.Response_GetAgents_Agent) { a.Deactivated = &yes })
	agent("well", func(*mastermsg.Response_GetAgents_Agent) {})
	agents, err := startClient(t, ConnectionConfig{Master: c.URL()}).ListAgents(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents {
		if a.Draining == (a.ID == "well" || a.ID == "agent-1") {
			t.Errorf("agent %s: draining %t", a.ID, a.Draining)
		}
		if a.ID == "well" && (a.Region != "eu" || a.Zone != "eu-1") {
			t.Errorf("agent in region %q, zone %q", a.Region, a.Zone)
		}
	}
}

// TestWithheldDevices checks that an agent's withheld devices are those that it reports with a known cause, and that
// they are not among its devices.
func TestWithheldDevices(t *testing.T) {
	c := mesostest.NewCluster(t, 4)
	told := []gpu.WithheldDevice{{UUID: "GPU-1", Cause: gpu.WithheldUnhealthy, Note: "XID 79, {lost}"}, {UUID: "GPU-2", Cause: gpu.WithheldCordoned}}
	c.WithholdDevices(append(told, gpu.WithheldDevice{UUID: "GPU-3", Cause: "asleep"})...)
	agents, err := startClient(t, ConnectionConfig{Master: c.URL()}).ListAgents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a := agents[0]; a.GPUs != 1 || !slices.Equal(a.DeviceIDs, []string{"GPU-0"}) || !slices.Equal(a.Withheld, told) {
		t.Errorf("got %d GPUs %v, withheld %+v, want GPU-0 and %+v", a.GPUs, a.DeviceIDs, a.Withheld, told)
	}
}

// TestAgentsOfANewLeader checks that the list comes from the leader if the client is connected to another master.
func TestAgentsOfANewLeader(t *testing.T) {
	old, leader := mesostest.NewMaster(t), mesostest.NewCluster(t, 1)
	r := startClient(t, ConnectionConfig{Master: old.URL()})
	nextEvent[sched.Subscribed](t, r)
	old.Demote(leader.URL())
	if agents, err := r.ListAgents(context.Background()); err != nil || len(agents) != 1 {
		t.Errorf("agents %v, %v", agents, err)
	}
	leader.Close()
	if _, err := r.ListAgents(context.Background()); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a dead leader: %v", err)
	}
}

// BenchmarkAgents reads the list of a cluster of 10,000 agents with 8 GPUs each, by id.
func BenchmarkAgents(b *testing.B) {
	list := mastermsg.Response{Type: mastermsg.Response_GET_AGENTS, GetAgents: &mastermsg.Response_GetAgents{}}
	c := mesostest.NewCluster(b, 8)
	for i := range 10_000 {
		a := c.Agents.Agents[0]
		a.AgentInfo.ID = &mesos.AgentID{Value: fmt.Sprintf("ee518ef3-63c5-4d4e-a899-a44f362b9560-S%d", i)}
		list.GetAgents.Agents = append(list.GetAgents.Agents, a)
	}
	body, err := list.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	client, err := New(ConnectionConfig{Master: c.URL(), ExecutorPath: "/x", Log: newDiscardLogger(), Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		var answer mastermsg.Response
		if err := answer.Unmarshal(body); err != nil {
			b.Fatal(err)
		}
		if n := len(client.convertAgents(answer.GetGetAgents().GetAgents())); n != 10_000 {
			b.Fatal(n)
		}
	}
}
