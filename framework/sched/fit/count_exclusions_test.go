package fit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// TestCountExclusions checks that each agent is counted at the first cause that excludes it.
func TestCountExclusions(t *testing.T) {
	agent := func(id string, change func(a *AgentResources)) AgentResources {
		a := typedAgent(id, v100, 4)
		change(&a)
		return a
	}
	agents := []AgentResources{
		agent("a", func(a *AgentResources) { a.Role = "other" }),
		agent("b", func(a *AgentResources) { a.Hostname = "small" }),
		agent("c", func(a *AgentResources) { a.Closed = true }),
		agent("d", func(a *AgentResources) { a.Unavailable = noon.Add(time.Minute) }),
		agent("e", func(a *AgentResources) { a.Free.CPUs = 1 }),
		agent("f", func(a *AgentResources) { a.Free.MemMiB = 1 }),
		agent("g", func(a *AgentResources) { a.Free.DiskMiB = 1 }),
		agent("h", func(a *AgentResources) { a.GPUs, a.DeviceIDs = 1, a.DeviceIDs[:1] }),
		agent("i", func(a *AgentResources) { a.Driver = "1.0" }),
		agent("j", func(*AgentResources) {}),
		agent("k", func(a *AgentResources) { a.Hostname = "taken" }),
	}
	amount := Amount{CPUs: 2, MemMiB: 1000, DiskMiB: 100}
	taken := agents[10]
	for _, c := range []struct {
		name string
		d    Demand
		want string
	}{
		{"everything", Demand{
			Amount: amount, Request: gpu.Request{GPUs: 2, MinDriver: "500"}, RunTime: time.Hour, Ports: 1, PeerAgents: []*AgentResources{&taken},
			Constraints: []job.Constraint{mustParseConstraint(t, "hostname UNLIKE small"), mustParseConstraint(t, "hostname UNIQUE")},
		}, "role 1/11, constraint 2/10, maintenance 2/8, scarce 0/6, cpus 1/6, memory 1/5, disk 1/4, gpus 2/3, ports 1/1"},
		{"no GPUs", Demand{Amount: amount, Constraints: []job.Constraint{mustParseConstraint(t, "@gpus IS 0"), mustParseConstraint(t, "hostname UNLIKE small")}},
			"role 1/11, constraint 1/10, maintenance 2/9, scarce 7/7, cpus 0/0, memory 0/0, disk 0/0, gpus 0/0, ports 0/0"},
		{"an unknown role", Demand{Role: "unknown", Amount: amount},
			"role 11/11, constraint 0/0, maintenance 0/0, scarce 0/0, cpus 0/0, memory 0/0, disk 0/0, gpus 0/0, ports 0/0"},
	} {
		got := formatExclusions(NewCluster(agents, PlacementPolicy{}, noon).CountExclusions(&c.d))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	two := []AgentResources{typedAgent("a", v100, 4), agent("a", func(a *AgentResources) { a.Role = "other" })}
	if got := NewCluster(two, PlacementPolicy{}, noon).CountExclusions(&Demand{Amount: amount})[0]; got.Agents != 1 || got.Excluded != 0 {
		t.Errorf("an agent that offers to two roles counts as %+v", got)
	}
}

// TestExclusionsByOneType checks that an agent whose types are enough only together is excluded if all GPUs must be of one
// type.
func TestExclusionsByOneType(t *testing.T) {
	mixed := AgentResources{
		ID: "a", Free: Amount{CPUs: 8, MemMiB: 1000}, GPUs: 3, DeviceIDs: []string{"GPU-a", "GPU-b", "GPU-c"},
		Inventory: []gpu.Device{{UUID: "GPU-a", Model: "Tesla V100"}, {UUID: "GPU-b", Model: "Tesla K80"}, {UUID: "GPU-c", Model: "Tesla K80"}},
	}
	for gpus, excluded := range map[int]int{1: 0, 2: 0, 3: 1} {
		c := NewCluster([]AgentResources{mixed}, PlacementPolicy{}, noon)
		d := Demand{Amount: Amount{CPUs: 1, MemMiB: 1}, Request: gpu.Request{GPUs: gpus, Types: gpu.TypeSelector{Same: true}}}
		for _, count := range c.CountExclusions(&d) {
			if count.Cause == job.ExcludedByGPUs && count.Excluded != excluded {
				t.Errorf("%d GPUs of one type: %d agents are excluded, want %d", gpus, count.Excluded, excluded)
			}
		}
		if placed := len(c.PlaceTasks(&d, 1)); placed != 1-excluded {
			t.Errorf("%d GPUs of one type: %d tasks placed", gpus, placed)
		}
	}
}

func formatExclusions(counts []job.ExclusionCount) (text string) {
	names := []string{"role", "constraint", "maintenance", "scarce", "cpus", "memory", "disk", "gpus", "ports"}
	for i, c := range counts {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %d/%d", names[c.Cause], c.Excluded, c.Agents)
	}
	return text
}

// TestExclusionsAgreeWithPlacement checks that some agent is left exactly if a task can be placed.
func TestExclusionsAgreeWithPlacement(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var agents []AgentResources
		for n := range 1 + random.IntN(4) {
			a := typedAgent(string(rune('a'+n)), v100, random.IntN(5))
			a.Free = Amount{CPUs: float64(random.IntN(4)), MemMiB: float64(random.IntN(4)), DiskMiB: float64(random.IntN(4))}
			a.Closed = random.IntN(5) == 0
			if a.Closed {
				a.Free, a.GPUs, a.DeviceIDs = Amount{}, 0, nil
			}
			agents = append(agents, a)
		}
		d := Demand{
			Amount:  Amount{CPUs: float64(random.IntN(3)), MemMiB: float64(1 + random.IntN(3)), DiskMiB: float64(random.IntN(3))},
			Request: gpu.Request{GPUs: random.IntN(3)},
		}
		c := NewCluster(agents, PlacementPolicy{}, noon)
		counts := c.CountExclusions(&d)
		last := counts[len(counts)-1]
		if placed := len(c.PlaceTasks(&d, 1)) == 1; placed != (last.Agents > last.Excluded) {
			t.Fatalf("placed: %t, but %s\n%+v\n%+v", placed, formatExclusions(counts), d, agents)
		}
	}
}
