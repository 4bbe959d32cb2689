package fit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestUpdatedClusterEqualsNew checks that an updated cluster places tasks as a new
// one does, after one update or several.
func TestUpdatedClusterEqualsNew(t *testing.T) {
	renewed := 0
	rapid.Check(t, func(t *rapid.T) {
		agents, p := genAgents(t, 5), genPolicy(t)
		at := map[string]int{}
		for i := range agents {
			agents[i].Unavailable = time.Time{}
			at[agents[i].ID+" "+agents[i].Role] = i
		}
		c := NewCluster(agents, p, noon)
		for range rapid.IntRange(1, 3).Draw(t, "times") {
			var changed []AgentResources
			for _, a := range genAgents(t, 5) {
				i, ok := at[a.ID+" "+a.Role]
				if !ok {
					continue
				}
				if rapid.Bool().Draw(t, "in one thing") {
					a = changeOneFact(t, agents[i])
				}
				a.Unavailable = time.Time{}
				agents[i], changed = a, append(changed, a)
			}
			p.Typical = genPolicy(t).Typical
			if !c.UpdateAgents(slices.Values(changed), p.Typical, noon) {
				t.Fatalf("%d agents cannot be updated", len(changed))
			}
			renewed += len(changed)
			kept, made := c.Clone(), NewCluster(agents, p, noon)
			for _, a := range agents { // devices that the agent did not list
				h := TaskResources{Amount: Amount{CPUs: 1}, GPUs: 1, DeviceIDs: []string{"GPU-new"}}
				kept.ReleaseResources(a.ID, a.Role, h)
				made.ReleaseResources(a.ID, a.Role, h)
			}
			for range 3 {
				d := genDemand(t, true)
				if diff := cmp.Diff(made.ExplainShortage(d), kept.ExplainShortage(d)); diff != "" {
					t.Fatalf("%+v is short of (-new +updated):\n%s", d, diff)
				}
				if diff := cmp.Diff(made.PlaceTasks(d, 3), kept.PlaceTasks(d, 3)); diff != "" {
					t.Fatalf("%+v finds (-new +updated):\n%s", d, diff)
				}
			}
		}
	})
	if renewed < 20 {
		t.Errorf("only %d agents were updated", renewed)
	}
}

// changeOneFact changes one field of an agent, or none.
func changeOneFact(t *rapid.T, a AgentResources) AgentResources {
	switch rapid.IntRange(0, 8).Draw(t, "thing") {
	case 0:
		a.Free.CPUs++
	case 1:
		a.GPUs++
	case 2:
		a.DeviceIDs = a.DeviceIDs[:len(a.DeviceIDs)/2]
	case 3:
		a.Ports = nil
	case 4:
		a.TotalGPUs++
	case 5:
		a.Types = []string{"H100"}
	case 6:
		a.Driver = "999.1"
	case 7:
		a.Shared, a.AllShared = nil, nil
	}
	return a
}

// TestUpdateAgentsRefuses checks the updates that are not possible, and that too
// many stale values end updates.
func TestUpdateAgentsRefuses(t *testing.T) {
	a := eightNamedGPUs("a", 8, 64)
	away := a
	away.Unavailable = noon
	for name, changed := range map[string]AgentResources{"an agent that was not there": eightNamedGPUs("b", 8, 64), "maintenance": away} {
		if NewCluster([]AgentResources{a}, PlacementPolicy{}, noon).UpdateAgents(slices.Values([]AgentResources{changed}), nil, noon) {
			t.Errorf("%s: the update succeeded", name)
		}
	}
	if NewCluster([]AgentResources{away}, PlacementPolicy{}, noon).UpdateAgents(slices.Values([]AgentResources{a}), nil, noon) {
		t.Error("a cluster with planned maintenance was updated, although it depends on the time")
	}
	c := NewCluster([]AgentResources{a}, PlacementPolicy{}, noon)
	large := a
	large.DeviceIDs = nil
	for i := range 100 {
		large.DeviceIDs = append(large.DeviceIDs, fmt.Sprint("GPU-", i))
	}
	times := 0
	for c.UpdateAgents(slices.Values([]AgentResources{[]AgentResources{large, a}[times%2]}), nil, noon) {
		if times++; times > 2*maxStale {
			t.Fatalf("after %d updates with stale slots UpdateAgents still succeeds", times)
		}
	}
	if times < maxStale/2 { // its devices are divisible: both bits and shares
		t.Errorf("updates end after %d stale slots already", times)
	}
	c = NewCluster([]AgentResources{a}, PlacementPolicy{}, noon)
	words := len(c.wholeBits)
	for range 100 {
		if !c.UpdateAgents(slices.Values([]AgentResources{a}), nil, noon) {
			t.Fatal("the same agent cannot be updated")
		}
	}
	if len(c.wholeBits) != words {
		t.Errorf("an unchanged agent uses %d words, want %d", len(c.wholeBits), words)
	}
}
