package leader

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/budget"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/frameworktest"
)

// TestGPUTimeSurvivesRestart: after a restart the scheduler exports the recorded GPU time
// and continues from it.
func TestGPUTimeSurvivesRestart(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "journal.db"), time.Unix(1_700_000_000, 0)
	cfg := testLoopConfig()
	cfg.Clock = func() time.Time { return now }
	begin := func() (*Loop, func()) {
		j, err := journal.OpenBolt(path)
		if err != nil {
			t.Fatal(err)
		}
		past, err := j.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return NewLoop(cfg, past, j, func(sched.Operation) {}), func() {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	step := func(l *Loop, ev sched.Event) {
		t.Helper()
		l.applyEvent(ev)
		l.recordGPUTime()
		l.runCycle()
		if err := l.commitBatch(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	want := func(l *Loop, seconds float64) {
		t.Helper()
		got := l.Model.MetricsSnapshot(cfg.Counters, now).GPUSeconds
		if diff := cmp.Diff([]metrics.GPUSeconds{{Role: "*", Type: "V100", Seconds: seconds}}, got); diff != "" {
			t.Errorf("GPU seconds (-want +got):\n%s", diff)
		}
	}
	l, end := begin()
	s := frameworktest.JobSpec("train", 1, 2)
	s.SetDefaults()
	step(l, sched.Subscribed{FrameworkID: "f1"})
	step(l, sched.SubmitJob{Spec: s})
	step(l, sched.OffersReceived{Offers: []sched.Offer{{ID: "o1", AgentID: "a", Role: "*", GPUs: 2, Types: []string{"V100"}, Free: sched.Amount{
		CPUs:   2,
		MemMiB: 1024,
	}}}})
	now = now.Add(gpuTimeRecordInterval)
	step(l, sched.Tick{})
	want(l, 60)
	now = now.Add(gpuTimeRecordInterval - time.Second)
	step(l, sched.Tick{}) // too early to record
	want(l, 60)
	end()
	now = now.Add(time.Minute)
	l, end = begin()
	want(l, 60)
	now = now.Add(gpuTimeRecordInterval)
	step(l, sched.Tick{})
	want(l, 60+2*(29+60+30))
	now = now.Add(20 * time.Second) // too early to record
	s = frameworktest.JobSpec("second", 1, 2)
	s.SetDefaults()
	step(l, sched.Subscribed{FrameworkID: "f1"})
	step(l, sched.SubmitJob{Spec: s})
	step(l, sched.OffersReceived{Offers: []sched.Offer{{ID: "o2", AgentID: "b", Role: "*", GPUs: 2, Types: []string{"V100"}, Free: sched.Amount{
		CPUs:   2,
		MemMiB: 1024,
	}}}})
	now = now.Add(-time.Hour) // the clock is set back: what was counted is recorded
	step(l, sched.Tick{})
	end()
	l, end = begin()
	want(l, 60+2*(29+60+30+20))
	end()
}

// TestGPUCountsOfAgents: the counts include agents that can run tasks, by the types in
// their resources and inventories.
func TestGPUCountsOfAgents(t *testing.T) {
	l := NewLoop(testLoopConfig(), journal.JournalContents{}, &orderedJournal{}, func(sched.Operation) {})
	l.state.Step(time.Now(), sched.CordonHost{Host: "shut"})
	if err := l.commitBatch(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := New(l, Config{})
	if b.gpuCounts.Current() != nil {
		t.Error("GPUs are counted before the first list of agents")
	}
	inventory := gpu.Host{Devices: []gpu.Device{
		{UUID: "a", Model: "Tesla V100-SXM2-16GB"},
		{UUID: "b", Model: "NVIDIA A100 80GB PCIe"},
		{UUID: "c", Model: "NVIDIA A100 80GB PCIe"},
	}}
	named := master.ListedAgent{Active: true, GPUs: 3, GPUsFree: 1, DeviceIDs: []string{"a", "b", "c"}, DevicesHeld: []string{"a", "c"}, Host: inventory}
	away, draining, cordoned := named, named, named
	away.Active, draining.Draining, cordoned.Hostname = false, true, "shut"
	b.countAgents([]master.ListedAgent{
		named, away, draining, cordoned, {Active: true},
		{Active: true, GPUs: 4, GPUsFree: 1, Types: []string{"Tesla V100"}},
		{Active: true, GPUs: 2, GPUsFree: 2, Types: []string{"T4", "P4"}},
	})
	want := map[string]metrics.GPUCount{"V100": {All: 5, Free: 1}, "A100": {All: 2, Free: 1}, "P4|T4": {All: 2, Free: 2}}
	if diff := cmp.Diff(want, b.gpuCounts.Current()); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
}

// testLoopConfig returns the configuration of a loop with the default role.
func testLoopConfig() LoopConfig {
	cfg := LoopConfig{Counters: metrics.NewSchedulerCounters(), Clock: time.Now, Log: frameworktest.DiscardLog()}
	cfg.Sched.Policy.Roles = []queue.Role{{Name: "*"}}
	return cfg
}

// TestRoleShares: the metrics have what roles deserve, demand, hold and are entitled to, computed every 10 s.
func TestRoleShares(t *testing.T) {
	j, err := journal.OpenBolt(filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	now := time.Unix(1_700_000_000, 0)
	cfg := testLoopConfig()
	cfg.Clock = func() time.Time { return now }
	l := NewLoop(cfg, journal.JournalContents{}, j, func(sched.Operation) {})
	b := New(l, Config{})
	want := func(want []metrics.RoleShare) {
		t.Helper()
		got, err := b.MetricsSnapshot(t.Context())
		if diff := cmp.Diff(want, got.RoleShares); diff != "" || err != nil {
			t.Errorf("shares %v (-want +got):\n%s", err, diff)
		}
	}
	l.applyEvent(sched.Tick{})
	want(nil)
	var p sched.Policy
	p.Reclaim = placement.ReclaimEntitled
	p.Roles = []queue.Role{
		{Name: "a", Deserved: quota.Quota{"V100": 2}, DeservedHost: quota.HostQuota{quota.CPUs: 4, quota.Memory: 100}}, {Name: "b", HalfLife: time.Hour},
	}
	l.applyEvent(sched.PolicyChanged{Policy: p})
	s := frameworktest.JobSpec("train", 3, 1)
	s.Role, s.CPUs, s.MemMiB = "b", 1.5, 10
	s.SetDefaults()
	l.applyEvent(sched.SubmitJob{Spec: s})
	l.applyEvent(sched.AgentsListed{Agents: []sched.Agent{{ID: "x", GPUs: 2, Types: []string{"V100"}}}})
	l.applyEvent(sched.Tick{}) // too early
	want(nil)
	now = now.Add(roleShareInterval)
	l.applyEvent(sched.Tick{})
	want([]metrics.RoleShare{
		{Role: "a", Type: "V100", Deserved: 2},
		{Role: "b", Type: "*", Demanded: 3, Entitled: 2}, {Role: "b", Type: "V100", Demanded: 3, Entitled: 2},
	})
	got, err := b.MetricsSnapshot(t.Context())
	if diff := cmp.Diff([]metrics.RecentUsage{{Role: "b", HalfLifeSeconds: 3600}}, got.RecentUsages); diff != "" || err != nil {
		t.Errorf("recent usage %v (-want +got):\n%s", err, diff)
	}
	hosts := []metrics.HostShare{
		{Role: "a", Resource: "cpus", Deserved: 4}, {Role: "a", Resource: "mem", Deserved: 100 << 20},
		{Role: "b", Resource: "cpus", Demanded: 4.5}, {Role: "b", Resource: "mem", Demanded: 30 << 20},
	}
	if diff := cmp.Diff(hosts, got.HostShares); diff != "" {
		t.Errorf("CPUs and memory (-want +got):\n%s", diff)
	}
}

// TestBudgetFigures: the metrics have what is used of each amount of a budget, the amount, and the waiting tasks that it holds.
func TestBudgetFigures(t *testing.T) {
	j, err := journal.OpenBolt(filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	now := time.Unix(1_700_000_000, 0)
	cfg := testLoopConfig()
	cfg.Clock = func() time.Time { return now }
	cfg.Sched.Policy.Roles = []queue.Role{{Name: "a", Budget: &budget.Budget{Month: 100, EachUser: 2}}, {Name: "b"}}
	l := NewLoop(cfg, journal.JournalContents{}, j, func(sched.Operation) {})
	b := New(l, Config{})
	for _, role := range []string{"a", "b"} {
		s := frameworktest.JobSpec("train-"+role, 3, 1)
		s.Role, s.Owner = role, "ann"
		s.SetDefaults()
		l.applyEvent(sched.SubmitJob{Spec: s})
	}
	l.applyEvent(sched.BudgetUsageMeasured{Until: now, Used: budget.Usage{
		{Role: "a", User: "ann", Type: "V100"}: 3 * 3600, {Role: "a/x", User: "bob", Type: "V100"}: 1800, {Role: "b", User: "ann", Type: "V100"}: 3600,
	}})
	now = now.Add(roleShareInterval)
	l.applyEvent(sched.Tick{})
	got, err := b.MetricsSnapshot(t.Context())
	want := []metrics.Budget{
		{Role: "a", Type: "*", Used: 3.5, Amount: 100},
		{Role: "a", User: "ann", Type: "*", Used: 3, Amount: 2, HeldTasks: 3},
		{Role: "a", User: "bob", Type: "*", Used: 0.5, Amount: 2},
	}
	if diff := cmp.Diff(want, got.Budgets); diff != "" || err != nil {
		t.Errorf("budgets %v (-want +got):\n%s", err, diff)
	}
}
