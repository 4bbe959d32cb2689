package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// TestAgentCacheDoesNotChangePlans checks that a State with an agent cache returns the same operations as one that
// reads all agents in each cycle, for any events and policies.
func TestAgentCacheDoesNotChangePlans(t *testing.T) {
	kept := 0
	rapid.Check(t, func(t *rapid.T) {
		cfg := SchedulerSettings{MaxEndedTasks: 1}
		cfg.Policy.Fit.Name = rapid.SampledFrom(fit.PolicyNames()).Draw(t, "policy")
		if rapid.Bool().Draw(t, "two policies") {
			cfg.Policy.Roles = []queue.Role{{Name: "a"}, {Name: "b", FitPolicy: "spread"}}
		}
		m := uncachedPair{t: t, one: New(cfg, RecoveredState{}), other: New(cfg, RecoveredState{}), now: time.Unix(1_700_000_000, 0)}
		m.stepBoth(Subscribed{FrameworkID: "f"})
		for range rapid.IntRange(1, 25).Draw(t, "rounds") {
			m.runCycle()
		}
		kept += m.kept
	})
	if kept < 20 {
		t.Errorf("the cache was used in only %d cycles: too few to compare", kept)
	}
}

// uncachedPair applies the same events to two States, one of which never has a cache.
type uncachedPair struct {
	t          *rapid.T
	one, other *State
	now        time.Time
	jobs       int
	offers     int
	running    []TaskLocation
	kept       int
}

func (m *uncachedPair) stepBoth(ev Event) {
	if _, cycle := ev.(Cycle); cycle {
		for _, a := range m.one.agentsWithLeftovers() {
			if diff := cmp.Diff(placement.FreeResources(&a), m.one.leftoverOf(&a, m.one.now)); diff != "" {
				m.t.Fatalf("free resources of %s (-uncached +cached):\n%s", a.ID, diff)
			}
		}
	}
	before := m.one.agentCache.cluster
	got := m.one.Step(m.now, ev)
	m.other.agentCache, m.other.queueCache = agentCache{}, queueCache{}
	if diff := cmp.Diff(m.other.Step(m.now, ev), got); diff != "" {
		m.t.Fatalf("%T: plans differ (-uncached +cached)\n%s", ev, diff)
	}
	if _, cycle := ev.(Cycle); cycle && before != nil && before == m.one.agentCache.cluster && len(m.one.changedAgents) > 0 {
		m.kept++
	}
	m.one.TakeChanges()
	m.other.TakeChanges()
	for _, op := range got {
		if a, ok := op.(AcceptOffers); ok {
			for _, l := range a.Launches {
				m.running = append(m.running, TaskLocation{l.TaskID, a.AgentID})
			}
		}
	}
}

// runCycle applies random events and then a Cycle.
func (m *uncachedPair) runCycle() {
	m.now = m.now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 1, 1, 6, 70}).Draw(m.t, "seconds")) * time.Second)
	roles := m.one.roleNames()
	for _, j := range genQueue(2, 3).Draw(m.t, "jobs") {
		s := *j.Spec
		m.jobs++
		s.Name, s.Role, s.Command = fmt.Sprint("j", m.jobs), rapid.SampledFrom(roles).Draw(m.t, "role"), []string{"true"}
		s.RunTime = time.Duration(rapid.IntRange(0, 3).Draw(m.t, "run")) * time.Minute
		if rapid.IntRange(0, 3).Draw(m.t, "constrained") == 0 {
			s.Constraints = []job.Constraint{{Field: "@gpus", Operator: job.Like, Value: "[1-3]"}, {Field: "hostname", Operator: job.MaxPer, Value: "2"}}
		}
		s.SetDefaults()
		m.stepBoth(SubmitJob{Spec: s})
	}
	offers := genOffers(4).Draw(m.t, "offers")
	role := rapid.SampledFrom(roles).Draw(m.t, "of")
	for i := range offers {
		m.offers++
		offers[i].ID, offers[i].Role, offers[i].Hostname = fmt.Sprint("o", m.offers), role, offers[i].AgentID
	}
	if rapid.IntRange(0, 20).Draw(m.t, "maintenance") == 0 && len(offers) > 0 {
		offers[0].Unavailable = m.now.Add(time.Hour)
	}
	m.stepBoth(OffersReceived{Offers: offers})
	switch rapid.IntRange(0, 30).Draw(m.t, "rare") {
	case 0:
		m.stepBoth(AgentLost{AgentID: "a1"})
	case 1:
		m.stepBoth(OfferRescinded{OfferID: fmt.Sprint("o", m.offers)})
	case 2:
		m.stepBoth(AgentsListed{Agents: []Agent{
			{ID: "a0", Hostname: "a0", GPUs: 4, Types: []string{"K80"}},
			{ID: "a9", Hostname: "a9", GPUs: 2, Shared: []SharedDevice{{UUID: "GPU-9", MemMiB: 100, Cores: 100}}},
		}})
	case 3, 4, 5, 6: // mostly the same list again
		var all []Agent
		for i := range 5 {
			all = append(all, Agent{ID: fmt.Sprint("a", i), Hostname: fmt.Sprint("a", i), GPUs: rapid.SampledFrom([]int{4, 4, 4, 4, 8}).Draw(m.t, "GPUs"), Types: []string{"K80"}})
		}
		m.stepBoth(AgentsListed{Agents: all})
	}
	for len(m.running) > 0 && rapid.Bool().Draw(m.t, "end") {
		i := rapid.IntRange(0, len(m.running)-1).Draw(m.t, "task")
		m.stepBoth(TaskUpdate{TaskID: m.running[i].TaskID, AgentID: m.running[i].AgentID, State: job.Finished})
		m.running = slices.Delete(m.running, i, i+1)
	}
	m.stepBoth(Tick{})
	m.stepBoth(Cycle{})
}

// TestPlansKnowAllGPUsOfAgents checks that an agent of which a part is offered counts with all of its GPUs, whether the plan
// reads all agents or only those that have changed.
func TestPlansKnowAllGPUsOfAgents(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := New(SchedulerSettings{}, RecoveredState{})
	s.Step(now, Subscribed{FrameworkID: "f"})
	s.Step(now, AgentsListed{Agents: []Agent{{ID: "a", Hostname: "a", Types: []string{"V100"}, GPUs: 8}}})
	wide := testSpec("wide")
	wide.Request.GPUs = 8
	s.Step(now, SubmitJob{Spec: wide}) // offers are held for it
	for _, id := range []string{"o1", "o2"} {
		s.Step(now, OffersReceived{Offers: []Offer{{ID: id, AgentID: "a", Hostname: "a", GPUs: 2, Types: []string{"V100"}, Free: Amount{CPUs: 4, MemMiB: 1024}}}})
		agents := s.agentCache.buildCluster(now, &s.agentTable, s.roleNames(), &s.offers, &s.cfg.Policy.Policy).Agents()
		if len(agents) != 1 || agents[0].TotalGPUs != 8 || agents[0].GPUs < 2 {
			t.Errorf("after offer %s the agents are %+v, want one with 8 GPUs, a part of them free", id, agents)
		}
	}
}
