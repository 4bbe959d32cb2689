package sched

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// TestDriverOfAgent checks that the driver is that of the master's list, or of the agent's last offer if the list has
// none.
func TestDriverOfAgent(t *testing.T) {
	table := newAgentTable()
	now := time.Unix(1_700_000_000, 0)
	table.setListedAgents([]Agent{{ID: "listed", Driver: "550.1"}, {ID: "both", Driver: "550.2"}, {ID: "offered"}, {ID: "unknown"}})
	table.recordOffers(now, []*Offer{{AgentID: "both", Driver: "535.1"}, {AgentID: "offered", Driver: "535.2"}, {AgentID: "unknown"}})
	got := map[string]string{}
	for _, id := range []string{"listed", "both", "offered", "unknown", "missing"} {
		got[id] = table.driverOf(id)
	}
	want := map[string]string{"listed": "550.1", "both": "550.2", "offered": "535.2", "unknown": "", "missing": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("drivers (-want +got):\n%s", diff)
	}
}

// TestAgentsThatAreGoneAreForgotten checks that nothing is kept of an agent that is no longer listed or was removed.
func TestAgentsThatAreGoneAreForgotten(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for name, remove := range map[string]func(*agentTable){
		"unlisted": func(table *agentTable) { table.setListedAgents([]Agent{{ID: "stays"}}) },
		"removed":  func(table *agentTable) { table.removeAgent("gone") },
	} {
		table := newAgentTable()
		table.setListedAgents([]Agent{{ID: "stays"}, {ID: "gone"}})
		table.recordOffers(now, []*Offer{{AgentID: "stays", Role: "r"}, {AgentID: "gone", Role: "r"}, {AgentID: "gone", Role: "s"}})
		table.launchLosses["stays"], table.launchLosses["gone"] = launchLosses{count: 1}, launchLosses{count: 2}
		remove(&table)
		if got := slices.Collect(maps.Keys(table.listedAgents)); !slices.Equal(got, []string{"stays"}) {
			t.Errorf("%s: listed are %v", name, got)
		}
		if got := slices.Collect(maps.Keys(table.lastOffered)); !slices.Equal(got, []placement.AgentKey{{ID: "stays", Role: "r"}}) {
			t.Errorf("%s: offers are remembered of %v", name, got)
		}
		if got := slices.Collect(maps.Keys(table.launchLosses)); !slices.Equal(got, []string{"stays"}) {
			t.Errorf("%s: lost launches are remembered of %v", name, got)
		}
	}
}

// TestLeftoverOfAgent checks that what an agent had free in its last offer counts for leftoverValidity, unless the offer
// was rescinded or the agent accepts no tasks.
func TestLeftoverOfAgent(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	offer := Offer{AgentID: "a", Hostname: "host", Role: "r", GPUs: 2, Free: Amount{CPUs: 4, MemMiB: 100}}
	all := fit.TaskResources{Amount: offer.Free, GPUs: 2}
	for name, c := range map[string]struct {
		change func(*agentTable)
		after  time.Duration
		want   fit.TaskResources
	}{
		"at once":           {want: all},
		"at the end":        {after: leftoverValidity, want: all},
		"too late":          {after: leftoverValidity + 1},
		"rescinded":         {change: func(table *agentTable) { table.recordRescinded(&offer) }},
		"removed":           {change: func(table *agentTable) { table.removeAgent("a") }},
		"cordoned":          {change: func(table *agentTable) { table.cordons["host"] = CordonState{} }},
		"draining":          {change: func(table *agentTable) { table.setListedAgents([]Agent{{ID: "a", Draining: true}}) }},
		"loses launches":    {change: func(table *agentTable) { table.launchLosses["a"] = launchLosses{count: 2, pausedUntil: now.Add(1)} }},
		"end of that pause": {change: func(table *agentTable) { table.launchLosses["a"] = launchLosses{count: 2, pausedUntil: now} }, want: all},
		"another launched": {change: func(table *agentTable) {
			table.subtractLaunch(placement.AgentKey{ID: "a", Role: "other"}, launchOf(1))
		}, want: all},
		"launched": {change: func(table *agentTable) {
			table.subtractLaunch(placement.AgentKey{ID: "a", Role: "r"}, launchOf(1))
		}, want: fit.TaskResources{Amount: Amount{CPUs: 2.5, MemMiB: 40}, GPUs: 1}},
	} {
		table := newAgentTable()
		table.recordOffers(now, []*Offer{&offer})
		if c.change != nil {
			c.change(&table)
		}
		got := table.leftoverOf(&fit.AgentResources{ID: "a", Role: "r", Hostname: "host"}, now.Add(c.after))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: free resources (-want +got):\n%s", name, diff)
		}
	}
}

// launchOf returns the launch of a task with that many GPUs.
func launchOf(gpus int) *TaskLaunch {
	s := job.Spec{CPUs: 1, MemMiB: 50}
	s.Request.GPUs = gpus
	return &TaskLaunch{Spec: &s, Overhead: Amount{CPUs: 0.5, MemMiB: 10}}
}

// TestSubtractLaunch checks that a launch takes its devices, shares and ports from what the agent had free.
func TestSubtractLaunch(t *testing.T) {
	now, key := time.Unix(1_700_000_000, 0), placement.AgentKey{ID: "a", Role: "r"}
	table := newAgentTable()
	table.recordOffers(now, []*Offer{{
		AgentID: "a", Role: "r", GPUs: 2, DeviceIDs: []string{"GPU-1", "GPU-2"}, Ports: []PortRange{{First: 31000, Last: 31002}},
		Free: Amount{CPUs: 8, MemMiB: 1000, DiskMiB: 100}, Shared: []SharedDevice{{UUID: "GPU-3", MemMiB: 1000, Cores: 100}},
	}})
	whole := launchOf(1)
	whole.Spec.DiskMiB, whole.DeviceIDs, whole.Ports = 30, []string{"GPU-1"}, []int{31001}
	table.subtractLaunch(key, whole)
	share := launchOf(1)
	share.DeviceIDs, share.Shares = []string{"GPU-3"}, []gpu.DeviceShare{{UUID: "GPU-3", MemMiB: 400, Cores: 30}}
	table.subtractLaunch(key, share)
	a := table.lastOffered[key]
	if a.at != now {
		t.Errorf("the offer arrived at %s, want %s", a.at, now)
	}
	want := fit.TaskResources{
		Amount: Amount{CPUs: 5, MemMiB: 880, DiskMiB: 70}, GPUs: 1, DeviceIDs: []string{"GPU-2"},
		Shares: []gpu.DeviceShare{{UUID: "GPU-3", MemMiB: 600, Cores: 70}},
	}
	if diff := cmp.Diff(want, placement.FreeResources(&a.AgentResources)); diff != "" {
		t.Errorf("free resources (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]PortRange{{First: 31000, Last: 31000}, {First: 31002, Last: 31002}}, a.Ports); diff != "" {
		t.Errorf("free ports (-want +got):\n%s", diff)
	}
}

// TestNewestOfferIsTheLastRecorded: also of offers that arrive at one time.
func TestNewestOfferIsTheLastRecorded(t *testing.T) {
	agents, now := newAgentTable(), time.Unix(1_700_000_000, 0)
	for _, role := range []string{"prod", "guests", "prod"} {
		agents.recordOffers(now, []*Offer{{ID: "o-" + role, AgentID: "a", Role: role}})
		if got := agents.newestOffers()["a"]; got != role {
			t.Errorf("the newest offer is to %s, want %s", got, role)
		}
	}
	agents.recordRescinded(&Offer{ID: "o-prod", AgentID: "a", Role: "prod"})
	if got := agents.newestOffers()["a"]; got != "guests" {
		t.Errorf("after a rescinded one the newest offer is to %s", got)
	}
}
