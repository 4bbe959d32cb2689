package fit

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"mesos-gpu/gpu"
)

// wantsGPUs returns a demand for GPUs of some models, or of any.
func wantsGPUs(gpus int, cpus float64, models ...string) Demand {
	return Demand{Amount: Amount{CPUs: cpus}, Request: gpu.Request{GPUs: gpus, Types: gpu.TypeSelector{Include: models}}}
}

// eightTypedGPUs returns an agent with eight GPUs of a model.
func eightTypedGPUs(id, model string, cpus float64) AgentResources {
	return withModel(eightNamedGPUs(id, 8, cpus), model)
}

// placementOrder returns the agents that n tasks of a demand get, in order.
func placementOrder(c *Cluster, d Demand, n int) string {
	got := ""
	for range n {
		for _, s := range c.PlaceTasks(&d, 1) {
			got += c.Agents()[s.Agent].ID
		}
	}
	return got
}

// GPUs that would lack CPUs cost points.
//
//	an agent of 4 GPUs and 6 CPUs, a typical task of 1 GPU and 2 CPUs: CPUs for 3 of the 4 GPUs, one is starved;
//	after a task of 1 GPU and 4 CPUs: CPUs for 1 of 3, one more is starved;
//	after a task of 1 GPU and 1 CPU:  CPUs for 2.5 of 3, half of one less;
//	after a task of 6 CPUs: CPUs for none of 4, three more.
func TestCPUStarvationByHand(t *testing.T) {
	p := PlacementPolicy{Name: "headroom", Typical: []TypicalTask{{Demand: wantsGPUs(1, 2), Weight: 1}}}
	c := NewCluster([]AgentResources{eightNamedGPUs("a", 4, 6)}, p, noon)
	for _, task := range []struct {
		demand Demand
		want   int64
	}{{wantsGPUs(1, 4), 8}, {wantsGPUs(1, 1), -4}, {wantsGPUs(1, 2), 0}, {wantsGPUs(0, 6), 24}} {
		if got := pointsOn(c, 0, &task.demand); got != task.want {
			t.Errorf("%d GPUs and %g CPUs cost %d points, want %d", task.demand.Request.GPUs, task.demand.Amount.CPUs, got, task.want)
		}
	}
}

// pointsOn returns starvationPoints of a demand on an agent.
func pointsOn(c *Cluster, i int, d *Demand) int64 {
	r := &c.capacities[i]
	return c.starvationPoints(r, c.fragmentation.findProfile(r, &r.free), c.classifyDemand(d))
}

// Points for CPUs do not level off: of two agents with the same GPUs, a task with many CPUs gets the one on which it
// starves fewer GPUs, although it starves several on both.
func TestManyCPUsGoWhereTheyStarveFewerGPUs(t *testing.T) {
	p := PlacementPolicy{Name: "headroom", Typical: []TypicalTask{{Demand: wantsGPUs(1, 10), Weight: 1}}}
	c := NewCluster([]AgentResources{eightNamedGPUs("a", 8, 80), eightNamedGPUs("b", 8, 85), eightNamedGPUs("c", 8, 80)}, p, noon)
	if got := placementOrder(c, wantsGPUs(0, 70), 1); got != "b" {
		t.Errorf("the task went to %q, want b, which has CPUs for half a GPU more", got)
	}
}

// Tasks for any model avoid the one that typical tasks require until nothing else
// is free: scarcity refuses no task.
func TestScarcityLowersScoreOnly(t *testing.T) {
	p := PlacementPolicy{Name: "headroom", Typical: []TypicalTask{{Demand: wantsGPUs(1, 1), Weight: 3}, {Demand: wantsGPUs(1, 1, "A100"), Weight: 1}}}
	agents := []AgentResources{eightTypedGPUs("a", "A100", 64), eightTypedGPUs("b", "T4", 64)}
	c := NewCluster(agents, p, noon)
	if got, want := placementOrder(c, wantsGPUs(1, 1), 17), "bbbbbbbbaaaaaaaa"; got != want {
		t.Errorf("tasks for any model went to %q, want %q and one refused", got, want)
	}
	c = NewCluster(agents, p, noon)
	if got := placementOrder(c, wantsGPUs(1, 1, "A100"), 2); got != "aa" {
		t.Errorf("tasks that insist went to %q, want aa", got)
	}
	// In a cluster of that model alone, nothing can be avoided.
	c = NewCluster(agents[:1], p, noon)
	if got := placementOrder(c, wantsGPUs(1, 1), 2); got != "aa" {
		t.Errorf("tasks went to %q, want aa", got)
	}
}

// The scarcity of a model by manual calculation: a quarter of the demand requires a model that half of the GPUs are, or
// all of the demand does.
func TestScarcityOfHardwareClasses(t *testing.T) {
	agents := []AgentResources{eightTypedGPUs("a", "A100", 64), eightTypedGPUs("b", "T4", 64)}
	for name, c := range map[string]struct {
		typical []TypicalTask
		want    [2]float64
	}{
		"a quarter":        {[]TypicalTask{{Demand: wantsGPUs(1, 1), Weight: 3}, {Demand: wantsGPUs(1, 1, "A100"), Weight: 1}}, [2]float64{0.5, 0}},
		"GPUs count":       {[]TypicalTask{{Demand: wantsGPUs(1, 1), Weight: 1}, {Demand: wantsGPUs(3, 1, "A100"), Weight: 1}}, [2]float64{1, 0}},
		"more than all":    {[]TypicalTask{{Demand: wantsGPUs(1, 1, "A100"), Weight: 1}}, [2]float64{1, 0}},
		"either is enough": {[]TypicalTask{{Demand: wantsGPUs(1, 1, "A100", "T4"), Weight: 1}}, [2]float64{0, 0}},
		"no agent has it":  {[]TypicalTask{{Demand: wantsGPUs(1, 1, "H100"), Weight: 1}, {Demand: wantsGPUs(1, 1, "T4"), Weight: 1}}, [2]float64{0, 1}},
		"what takes CPUs only": {[]TypicalTask{
			{Demand: wantsGPUs(0, 1), Weight: 9},
			{Demand: wantsGPUs(1, 1), Weight: 3},
			{Demand: wantsGPUs(1, 1, "T4"), Weight: 1},
		}, [2]float64{0, 0.5}},
	} {
		cluster := NewCluster(agents, PlacementPolicy{Name: "headroom", Typical: c.typical}, noon)
		for i, want := range c.want {
			if got := scarcityOn(cluster, i, false); math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: scarcity of %s is %g, want %g", name, agents[i].Types[0], got, want)
			}
		}
	}
}

// scarcityOn returns the scarcity of an agent's GPUs in its present state.
func scarcityOn(c *Cluster, i int, shares bool) float64 {
	r := &c.capacities[i]
	return c.fragmentation.findProfile(r, &r.free).scarcityFor(shares)
}

// GPUs for which no task that requires them has CPUs left are as good as others for tasks for any model.
func TestGPUsWithoutCPUsForTypedTasksAreNotScarce(t *testing.T) {
	p := PlacementPolicy{Name: "headroom", Typical: []TypicalTask{{Demand: wantsGPUs(1, 1), Weight: 3}, {Demand: wantsGPUs(1, 8, "A100"), Weight: 1}}}
	c := NewCluster([]AgentResources{eightTypedGPUs("a", "A100", 64), eightTypedGPUs("b", "T4", 64)}, p, noon)
	if got := scarcityOn(c, 0, false); got != 0.5 {
		t.Errorf("idle: scarcity is %g, want 0.5", got)
	}
	if got := placementOrder(c, wantsGPUs(1, 57, "A100"), 1); got != "a" {
		t.Fatalf("the task went to %q, want a", got)
	}
	if got := scarcityOn(c, 0, false); got != 0 {
		t.Errorf("with 7 CPUs left: scarcity is %g, want 0", got)
	}
}

// withModel returns the agent with devices of another model.
func withModel(a AgentResources, model string) AgentResources {
	a.Types = []string{model}
	for g := range a.Inventory {
		a.Inventory[g].Model = model
	}
	return a
}

// shareOfOne returns a demand for a share of a device of 16000 MiB, with the same
// part of its cores, of some models or of any.
func shareOfOne(mem int64, cpus float64, models ...string) Demand {
	d := wantsGPUs(1, cpus, models...)
	d.Request.Share = gpu.ShareRequest{MemMiB: mem, Cores: int(mem / 160)}
	return d
}

// CPUs for two tasks with a quarter of a device each starve half of it. A task with a quarter and no CPUs leaves a
// quarter without CPUs.
func TestCPUStarvationOfSharesByHand(t *testing.T) {
	a := sharedByMethod("a", "16000/100")
	a.Free = Amount{CPUs: 4}
	c := NewCluster([]AgentResources{a}, PlacementPolicy{Name: "headroom", Typical: []TypicalTask{{Demand: shareOfOne(4000, 2), Weight: 1}}}, noon)
	for cpus, want := range map[float64]int64{0: -2, 2: 0, 4: 2} {
		d := shareOfOne(4000, cpus)
		if got := pointsOn(c, 0, &d); got != want {
			t.Errorf("a quarter and %g CPUs cost %d points, want %d", cpus, got, want)
		}
	}
}

// Demand for whole GPUs does not put pressure on shared ones, and the other way
// round. An eighth of the demand for whole GPUs requires a model that half of them
// are; for shared ones it is 500 of 2000 thousandths.
func TestScarcityOfSharesIsSeparate(t *testing.T) {
	agents := []AgentResources{
		eightTypedGPUs("a", "A100", 64), eightTypedGPUs("b", "T4", 64),
		withModel(sharedByMethod("c", "16000/100"), "A100"), withModel(sharedByMethod("d", "16000/100"), "T4"),
	}
	agents[0].Divisible, agents[1].Divisible = false, false
	p := PlacementPolicy{Name: "headroom", Typical: []TypicalTask{
		{Demand: wantsGPUs(1, 1), Weight: 7},
		{Demand: wantsGPUs(1, 1, "A100"), Weight: 1},
		{Demand: shareOfOne(4000, 1), Weight: 6},
		{Demand: shareOfOne(8000, 1, "A100"), Weight: 1},
	}}
	c := NewCluster(agents, p, noon)
	for i, want := range [][2]float64{{0.25, 0.5}, {0, 0}, {0.25, 0.5}, {0, 0}} {
		got := [2]float64{scarcityOn(c, i, false), scarcityOn(c, i, true)}
		if got != want {
			t.Errorf("scarcity on %s is %g, want %g", agents[i].ID, got, want)
		}
	}
	if got, want := c.fragmentation.largestAgents, (agentSize{}); got != want { // both agents with whole GPUs have the same size
		t.Errorf("largest are %+v, want %+v", got, want)
	}
	for i := range agents {
		agents[i].Free.CPUs = 64
	}
	if got, want := placementOrder(NewCluster(agents, p, noon), shareOfOne(8000, 1), 5), "ddcc"; got != want {
		t.Errorf("parts are of %q, want %q and one refused", got, want)
	}
}

// Agents with a count and a type are as scarce as agents with device IDs. Agents
// without a type have none.
func TestScarcityOfCountedGPUs(t *testing.T) {
	a, b := countedGPUs("a", 8, 64), countedGPUs("b", 8, 64)
	a.Types = []string{"A100"}
	p := PlacementPolicy{Name: "headroom", Typical: []TypicalTask{{Demand: wantsGPUs(1, 1), Weight: 1}, {Demand: wantsGPUs(1, 1, "A100"), Weight: 1}}}
	if got, want := placementOrder(NewCluster([]AgentResources{a, b}, p, noon), wantsGPUs(1, 1), 16), "bbbbbbbbaaaaaaaa"; got != want {
		t.Errorf("tasks went to %q, want %q", got, want)
	}
}

// The few largest agents are used last, but only while they are few.
func TestLargestIdleAgentsArePreserved(t *testing.T) {
	p := PlacementPolicy{Name: "headroom", Typical: []TypicalTask{{Demand: wantsGPUs(1, 1), Weight: 1}}}
	few := []AgentResources{eightNamedGPUs("a", 8, 128), eightNamedGPUs("b", 8, 64), eightNamedGPUs("c", 8, 64)}
	if got, want := placementOrder(NewCluster(few, p, noon), wantsGPUs(8, 8), 4), "bca"; got != want {
		t.Errorf("tasks went to %q, want %q", got, want)
	}
	for name, c := range map[string]struct {
		agents []AgentResources
		want   agentSize
	}{
		"few":             {few, agentSize{8, 115_200}},
		"half":            {few[:2], agentSize{}},
		"nearly as large": {[]AgentResources{eightNamedGPUs("a", 8, 128), eightNamedGPUs("b", 8, 120), eightNamedGPUs("c", 8, 64)}, agentSize{}},
		"few GPUs and many CPUs": {[]AgentResources{
			eightNamedGPUs("a", 2, 999), eightNamedGPUs("b", 8, 64), eightNamedGPUs("c", 8, 32),
			eightNamedGPUs("d", 8, 32),
		}, agentSize{8, 57_600}},
		"the largest are in use": {[]AgentResources{{ID: "a", TotalGPUs: 16}, eightNamedGPUs("b", 8, 64)}, agentSize{16, 0}},
		"without a known GPU":    {[]AgentResources{countedGPUs("a", 0, 9)}, agentSize{}},
	} {
		if got := NewCluster(c.agents, p, noon).fragmentation.largestAgents; got != c.want {
			t.Errorf("%s: largest are %+v, want %+v", name, got, c.want)
		}
	}
}

// An idle agent of the largest size costs more if tasks that only such agents serve request more GPUs than they have.
//
//	c has 8 of 24 GPUs, a third: if tasks that need all of its CPUs request half of all GPUs, it costs 8 * 1.5 points.
func TestCostOfLargestAgentsByHand(t *testing.T) {
	agents := []AgentResources{eightNamedGPUs("a", 8, 64), eightNamedGPUs("b", 8, 64), eightNamedGPUs("c", 8, 128)}
	small := TypicalTask{Demand: wantsGPUs(1, 4), Weight: 8}
	for name, c := range map[string]struct {
		typical []TypicalTask
		want    int64
	}{
		"others serve all":     {[]TypicalTask{small, {Demand: wantsGPUs(8, 64), Weight: 9}}, 8},
		"half needs c":         {[]TypicalTask{small, {Demand: wantsGPUs(8, 96), Weight: 1}}, 12},
		"a little needs c":     {[]TypicalTask{small, {Demand: wantsGPUs(1, 96), Weight: 1}}, 8},
		"all needs c":          {[]TypicalTask{{Demand: wantsGPUs(2, 96), Weight: 1}}, 24},
		"no agent is so large": {[]TypicalTask{small, {Demand: wantsGPUs(16, 96), Weight: 9}}, 8},
		"tasks have no GPUs":   {[]TypicalTask{{Demand: wantsGPUs(0, 96), Weight: 1}}, 8},
	} {
		if got := NewCluster(agents, PlacementPolicy{Name: "headroom", Typical: c.typical}, noon).fragmentation.largestPoints; got != c.want {
			t.Errorf("%s: %d points, want %d", name, got, c.want)
		}
	}
}

// After placements are undone, scores equal those of a new cluster with the same
// free resources.
func TestHeadroomAfterUndo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agents := []AgentResources{eightTypedGPUs("a", "A100", 96), eightTypedGPUs("b", "T4", 96), eightTypedGPUs("c", "T4", 128), eightNamedGPUs("d", 2, 64)}
		p := PlacementPolicy{Name: "headroom", Typical: []TypicalTask{
			{Demand: wantsGPUs(1, 4), Weight: 5},
			{Demand: wantsGPUs(8, 64), Weight: 1},
			{Demand: wantsGPUs(1, 8, "A100"), Weight: 2},
			{Demand: milliDemand(250), Weight: 4},
		}}
		var taken []takenPlacements
		worn, fresh := NewCluster(agents, p, noon), NewCluster(agents, p, noon)
		for range rapid.IntRange(1, 20).Draw(t, "tasks") {
			d := wantsGPUs(rapid.IntRange(0, 3).Draw(t, "gpus"), float64(rapid.IntRange(0, 9).Draw(t, "cpus")))
			if d.Request.GPUs == 1 {
				d.Request.Share = MilliShare(drawFrom(t, "milli", 0, 250, 600))
			}
			taken = append(taken, takenPlacements{&d, worn.PlaceTasks(&d, 1)})
		}
		for _, u := range taken {
			worn.UndoPlacements(u.demand, u.placements)
		}
		for _, d := range []Demand{wantsGPUs(0, 2), wantsGPUs(1, 3), wantsGPUs(4, 16), wantsGPUs(1, 1, "A100"), milliDemand(400)} {
			for i := range agents {
				if got, want := worn.scoreAgent(i, worn.classifyDemand(&d)), fresh.scoreAgent(i, fresh.classifyDemand(&d)); got != want {
					t.Fatalf("%s scores %d for %+v, want %d", agents[i].ID, got, d, want)
				}
			}
		}
	})
}

// Scoring does not allocate once profiles are computed.
func TestHeadroomDoesNotAllocate(t *testing.T) {
	p := PlacementPolicy{
		Name:    "headroom",
		Typical: []TypicalTask{{Demand: wantsGPUs(1, 4), Weight: 5}, {Demand: wantsGPUs(1, 8, "A100"), Weight: 2}, {Demand: milliDemand(250), Weight: 4}},
	}
	c := NewCluster([]AgentResources{eightTypedGPUs("a", "A100", 96), eightTypedGPUs("b", "T4", 96)}, p, noon)
	part := milliDemand(300)
	part.Amount.CPUs = 1
	c.PlaceTasks(&part, 2)
	for name, d := range map[string]Demand{"whole": wantsGPUs(2, 3), "part": part} {
		cl := c.classifyDemand(&d)
		if n := testing.AllocsPerRun(100, func() { c.scoreAgent(0, cl); c.scoreAgent(1, cl) }); n != 0 {
			t.Errorf("%s: %g allocations", name, n)
		}
	}
}
