package fit

import (
	"testing"
	"time"

	"mesos-gpu/gpu"
)

// eightNamedGPUs returns an agent with up to eight free devices with IDs, as in a
// trace.
func eightNamedGPUs(id string, gpus int, cpus float64) AgentResources {
	a := AgentResources{ID: id, Free: Amount{CPUs: cpus}, GPUs: gpus, TotalGPUs: gpus, Divisible: true}
	for g := range gpus {
		d := gpu.Device{UUID: id + string(rune('0'+g)), Model: v100, Minor: g, NUMA: -1}
		a.Inventory = append(a.Inventory, d)
		a.DeviceIDs = append(a.DeviceIDs, d.UUID)
	}
	return a
}

// milliDemand returns a demand for a share of one device.
func milliDemand(n int) Demand {
	return Demand{Request: gpu.Request{GPUs: 1, Share: MilliShare(n)}}
}

func devicesOfPlacement(s Placement) []string {
	ids := s.DeviceIDs
	for _, p := range s.Shares {
		ids = append(ids, p.UUID)
	}
	return ids
}

func TestBaselines(t *testing.T) {
	half := milliDemand(500)
	one := Demand{Request: gpu.Request{GPUs: 1}}
	two := Demand{Request: gpu.Request{GPUs: 2}}
	cpus := Demand{Amount: Amount{CPUs: 8}}
	for _, c := range []struct {
		name, policy string
		agents       []AgentResources
		tasks        []Demand
		want         string // the devices of each task, or its agent
	}{
		{"the emptier in CPUs aligns less with little CPU", "dotprod", []AgentResources{eightNamedGPUs("a", 8, 9), eightNamedGPUs("b", 2, 9)}, []Demand{one}, "b0"},
		{"CPU-only work goes where fewest CPUs are", "dotprod", []AgentResources{eightNamedGPUs("a", 1, 128), eightNamedGPUs("b", 1, 16)}, []Demand{cpus}, "b"},
		{"least is left", "bestfit", []AgentResources{eightNamedGPUs("a", 2, 100), eightNamedGPUs("b", 4, 10)}, []Demand{one}, "b0"},
		{"CPUs and GPUs weigh alike", "bestfit", []AgentResources{eightNamedGPUs("a", 2, 64), eightNamedGPUs("b", 4, 64)}, []Demand{one}, "a0"},
		{"the shared device first", "packing", []AgentResources{eightNamedGPUs("a", 1, 9), eightNamedGPUs("b", 4, 9)},
			[]Demand{half, half, two, one}, "a0 a0 b0,1 b2"},
		{"the smallest idle agent", "packing", []AgentResources{eightNamedGPUs("a", 4, 9), eightNamedGPUs("b", 2, 9)}, []Demand{one}, "b0"},
		{"an agent in use before an idle one", "packing", []AgentResources{eightNamedGPUs("a", 1, 9), eightNamedGPUs("b", 4, 9)}, []Demand{two, one}, "b0,1 b2"},
		{"its like before the emptiest", "clustering", []AgentResources{eightNamedGPUs("a", 8, 9), eightNamedGPUs("b", 8, 9)},
			[]Demand{one, two, two, one, half}, "a0 b0,1 b2,3 a1 b4"},
		{"an idle agent before others' company", "clustering",
			[]AgentResources{eightNamedGPUs("a", 8, 9), eightNamedGPUs("b", 8, 9), eightNamedGPUs("c", 8, 9)},
			[]Demand{half, one, two}, "a0 b0 c0,1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := NewCluster(c.agents, PlacementPolicy{Name: c.policy}, time.Time{})
			got := ""
			for i := range c.tasks {
				for _, s := range cluster.PlaceTasks(&c.tasks[i], 1) {
					if got != "" {
						got += " "
					}
					got += cluster.Agents()[s.Agent].ID
					for at, id := range devicesOfPlacement(s) {
						if at > 0 {
							got += ","
						}
						got += id[1:]
					}
				}
			}
			if got != c.want {
				t.Errorf("placed on %q, want %q", got, c.want)
			}
		})
	}
}

// Undone placements are no longer in the task mix, and a clone has its own mix.
func TestTaskMixAfterUndo(t *testing.T) {
	agents := []AgentResources{eightNamedGPUs("a", 8, 9), eightNamedGPUs("b", 4, 9)}
	one, two := Demand{Request: gpu.Request{GPUs: 1}}, Demand{Request: gpu.Request{GPUs: 2}}
	c := NewCluster(agents, PlacementPolicy{Name: "clustering"}, time.Time{})
	first := c.PlaceTasks(&one, 1) // b, the fuller of the idle agents
	clone := c.Clone()
	c.UndoPlacements(&one, first)
	where := func(c *Cluster) string { return c.Agents()[c.PlaceTasks(&two, 1)[0].Agent].ID }
	if got := where(clone); got != "a" {
		t.Errorf("with a task of another size: placed on %s, want a", got)
	}
	if got := where(c); got != "b" {
		t.Errorf("after that task was undone: placed on %s, want b", got)
	}
}

// Lots choose all agents that fit, the same ones for the same seed, and others for
// another seed.
func TestRandomTies(t *testing.T) {
	agents := []AgentResources{eightNamedGPUs("a", 8, 9), eightNamedGPUs("b", 8, 9), eightNamedGPUs("c", 8, 9), countedGPUs("d", 0, 9)}
	half := milliDemand(10)
	place := func(seed uint64) (order string, times map[string]int) {
		c := NewCluster(agents, PlacementPolicy{Name: "random", Seed: seed}, time.Time{})
		times = map[string]int{}
		for range 1200 {
			s := c.PlaceTasks(&half, 1)[0]
			order += s.Shares[0].UUID
			times[s.Shares[0].UUID]++
		}
		return order, times
	}
	first, times := place(1)
	if again, _ := place(1); again != first {
		t.Error("one seed has two orders")
	}
	if other, _ := place(2); other == first {
		t.Error("two seeds have one order")
	}
	for _, a := range agents[:3] {
		for _, id := range a.DeviceIDs { // 50 are expected; 5 standard deviations are 35
			if n := times[id]; n < 15 || n > 85 {
				t.Errorf("%s got %d of 1200 tasks", id, n)
			}
		}
	}
}

// MeasureFragmentation counts what typical tasks cannot use, independent of the
// policy.
func TestFragmentation(t *testing.T) {
	quarter, two := milliDemand(250), Demand{Request: gpu.Request{GPUs: 2}}
	cpus := Demand{Amount: Amount{CPUs: 1}}
	for _, policy := range []string{"binpack", "fgd"} {
		c := NewCluster([]AgentResources{eightNamedGPUs("a", 2, 9)}, PlacementPolicy{Name: policy, Typical: []TypicalTask{{Demand: cpus, Weight: 1}}}, time.Time{})
		for _, step := range []struct {
			list []TypicalTask
			want float64
		}{
			{[]TypicalTask{{Demand: two, Weight: 1}}, 0},
			{[]TypicalTask{{Demand: two, Weight: 3}, {Demand: cpus, Weight: 1}}, 0.5}, // a task without GPUs can use none
			{nil, 0},
		} {
			if got := c.MeasureFragmentation(step.list); got != step.want {
				t.Errorf("%s: %g GPUs of an idle agent are fragments for %v, want %g", policy, got, step.list, step.want)
			}
		}
		c.PlaceTasks(&quarter, 1)
		if got := c.MeasureFragmentation([]TypicalTask{{Demand: two, Weight: 1}, {Demand: quarter, Weight: 1}}); got != 1.75/2 {
			t.Errorf("%s: %g GPUs are fragments, want half of 1.75", policy, got)
		}
	}
}
