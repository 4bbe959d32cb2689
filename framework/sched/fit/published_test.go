package fit

import (
	"testing"
	"time"

	"mesos-gpu/gpu"
)

// named8 is an agent of up to eight devices that have names, as a trace has
// it.
func named8(id string, gpus int, cpus float64) Agent {
	a := Agent{ID: id, Free: Amount{CPUs: cpus}, GPUs: gpus, TotalGPUs: gpus, Divisible: true}
	for g := range gpus {
		d := gpu.Device{UUID: id + string(rune('0'+g)), Model: v100, Minor: g, NUMA: -1}
		a.Inventory = append(a.Inventory, d)
		a.DeviceIDs = append(a.DeviceIDs, d.UUID)
	}
	return a
}

// thousandths is a demand for a part of one device.
func thousandths(n int) Demand {
	return Demand{Request: gpu.Request{GPUs: 1, Share: Thousandths(n)}}
}

func devicesOfSpot(s Spot) []string {
	ids := s.DeviceIDs
	for _, p := range s.Parts {
		ids = append(ids, p.UUID)
	}
	return ids
}

func TestBaselines(t *testing.T) {
	half := thousandths(500)
	one := Demand{Request: gpu.Request{GPUs: 1}}
	two := Demand{Request: gpu.Request{GPUs: 2}}
	cpus := Demand{Amount: Amount{CPUs: 8}}
	for _, c := range []struct {
		name, policy string
		agents       []Agent
		tasks        []Demand
		want         string // the devices of each task, or its agent
	}{
		{"the emptier in CPUs aligns less with little CPU", "dotprod", []Agent{named8("a", 8, 9), named8("b", 2, 9)}, []Demand{one}, "b0"},
		{"CPU-only work goes where fewest CPUs are", "dotprod", []Agent{named8("a", 1, 128), named8("b", 1, 16)}, []Demand{cpus}, "b"},
		{"least is left", "bestfit", []Agent{named8("a", 2, 100), named8("b", 4, 10)}, []Demand{one}, "b0"},
		{"CPUs and GPUs weigh alike", "bestfit", []Agent{named8("a", 2, 64), named8("b", 4, 64)}, []Demand{one}, "a0"},
		{"the shared device first", "packing", []Agent{named8("a", 1, 9), named8("b", 4, 9)}, []Demand{half, half, two, one}, "a0 a0 b0,1 b2"},
		{"the smallest idle agent", "packing", []Agent{named8("a", 4, 9), named8("b", 2, 9)}, []Demand{one}, "b0"},
		{"an agent in use before an idle one", "packing", []Agent{named8("a", 1, 9), named8("b", 4, 9)}, []Demand{two, one}, "b0,1 b2"},
		{"its like before the emptiest", "clustering", []Agent{named8("a", 8, 9), named8("b", 8, 9)}, []Demand{one, two, two, one, half}, "a0 b0,1 b2,3 a1 b4"},
		{"an idle agent before others' company", "clustering", []Agent{named8("a", 8, 9), named8("b", 8, 9), named8("c", 8, 9)}, []Demand{half, one, two}, "a0 b0 c0,1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := NewCluster(c.agents, Policy{Name: c.policy}, time.Time{})
			got := ""
			for i := range c.tasks {
				for _, s := range cluster.Fill(&c.tasks[i], 1) {
					if got != "" {
						got += " "
					}
					got += cluster.Agents()[s.Agent].ID
					for at, id := range devicesOfSpot(s) {
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

// What is given back is company no more, and a clone has its own.
func TestCompanyLeaves(t *testing.T) {
	agents := []Agent{named8("a", 8, 9), named8("b", 4, 9)}
	one, two := Demand{Request: gpu.Request{GPUs: 1}}, Demand{Request: gpu.Request{GPUs: 2}}
	c := NewCluster(agents, Policy{Name: "clustering"}, time.Time{})
	first := c.Fill(&one, 1) // b, the fuller of the idle
	clone := c.Clone()
	c.Undo(&one, first)
	where := func(c *Cluster) string { return c.Agents()[c.Fill(&two, 1)[0].Agent].ID }
	if got := where(clone); got != "a" {
		t.Errorf("beside another's task: on %s, want a", got)
	}
	if got := where(c); got != "b" {
		t.Errorf("after it left: on %s, want b", got)
	}
}

// Lots fall on all that will do, on the same for the same seed, and on others
// for another.
func TestLots(t *testing.T) {
	agents := []Agent{named8("a", 8, 9), named8("b", 8, 9), named8("c", 8, 9), counted("d", 0, 9)}
	half := thousandths(10)
	place := func(seed uint64) (order string, times map[string]int) {
		c := NewCluster(agents, Policy{Name: "random", Seed: seed}, time.Time{})
		times = map[string]int{}
		for range 1200 {
			s := c.Fill(&half, 1)[0]
			order += s.Parts[0].UUID
			times[s.Parts[0].UUID]++
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

// Fragmentation counts what typical tasks cannot use, whatever the policy
// measures by.
func TestFragmentation(t *testing.T) {
	quarter, two := thousandths(250), Demand{Request: gpu.Request{GPUs: 2}}
	cpus := Demand{Amount: Amount{CPUs: 1}}
	for _, policy := range []string{"binpack", "fgd"} {
		c := NewCluster([]Agent{named8("a", 2, 9)}, Policy{Name: policy, Typical: []Typical{{cpus, 1}}}, time.Time{})
		for _, step := range []struct {
			list []Typical
			want float64
		}{
			{[]Typical{{two, 1}}, 0},
			{[]Typical{{two, 3}, {cpus, 1}}, 0.5}, // what has no GPUs can use none
			{nil, 0},
		} {
			if got := c.Fragmentation(step.list); got != step.want {
				t.Errorf("%s: %g GPUs of an idle agent are fragments for %v, want %g", policy, got, step.list, step.want)
			}
		}
		c.Fill(&quarter, 1)
		if got := c.Fragmentation([]Typical{{two, 1}, {quarter, 1}}); got != 1.75/2 {
			t.Errorf("%s: %g GPUs are fragments, want half of 1.75", policy, got)
		}
	}
}
