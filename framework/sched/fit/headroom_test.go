package fit

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"mesos-gpu/gpu"
)

// wants is a demand of so many GPUs of some models, any if none.
func wants(gpus int, cpus float64, models ...string) Demand {
	return Demand{Amount: Amount{CPUs: cpus}, Request: gpu.Request{GPUs: gpus, Types: gpu.Types{Include: models}}}
}

// typed8 is an agent of eight GPUs of a model.
func typed8(id, model string, cpus float64) Agent {
	return ofType(named8(id, 8, cpus), model)
}

// order is where tasks of a demand go one after another, by agent.
func order(c *Cluster, d Demand, n int) string {
	got := ""
	for range n {
		for _, s := range c.Fill(&d, 1) {
			got += c.Agents()[s.Agent].ID
		}
	}
	return got
}

// CPUs that are enough for one task and not for as many as the GPUs would
// take leave GPUs idle.
//
//	an agent of 4 GPUs and 6 CPUs, a typical task of 1 GPU and 2 CPUs:
//	GPUs for 4, CPUs for 3, so that 0.07 of 1000 thousandths are lost;
//	after one of 1 GPU and 4 CPUs: GPUs for 3, CPUs for 1, 0.07 of 2000;
//	after one of 1 GPU and 1 CPU:  GPUs for 3, CPUs for 2.5, 0.07 of 500.
func TestHungerByHand(t *testing.T) {
	p := Policy{Name: "headroom", Typical: []Typical{{wants(1, 2), 1}}}
	c := NewCluster([]Agent{named8("a", 4, 6)}, p, noon)
	lost := func() float64 { return c.fragmented(&c.rooms[0]) }
	if got := lost(); math.Abs(got-70) > 1e-9 {
		t.Errorf("idle: %g thousandths are lost, want 70", got)
	}
	for cpus, want := range map[float64]float64{4: 140, 1: 35} {
		d := wants(1, cpus)
		spots := c.Fill(&d, 1)
		if got := lost(); math.Abs(got-want) > 1e-9 {
			t.Errorf("with %g CPUs taken: %g thousandths are lost, want %g", cpus, got, want)
		}
		c.Undo(&d, spots)
	}
}

// Work that any model serves keeps off the one that typical tasks insist on,
// until nothing else is free: scarcity refuses nobody.
func TestScarcityRanksAndNeverRefuses(t *testing.T) {
	p := Policy{Name: "headroom", Typical: []Typical{{wants(1, 1), 3}, {wants(1, 1, "A100"), 1}}}
	agents := []Agent{typed8("a", "A100", 64), typed8("b", "T4", 64)}
	c := NewCluster(agents, p, noon)
	if got, want := order(c, wants(1, 1), 17), "bbbbbbbbaaaaaaaa"; got != want {
		t.Errorf("tasks for any model went to %q, want %q and one refused", got, want)
	}
	c = NewCluster(agents, p, noon)
	if got := order(c, wants(1, 1, "A100"), 2); got != "aa" {
		t.Errorf("tasks that insist went to %q, want aa", got)
	}
	// A cluster of that model alone has nothing to spare it with.
	c = NewCluster(agents[:1], p, noon)
	if got := order(c, wants(1, 1), 2); got != "aa" {
		t.Errorf("tasks went to %q, want aa", got)
	}
}

// How scarce a model is, on paper: a quarter of what is asked for must be of
// a model that has half of the GPUs; all of it, of one that has half.
func TestScarcityOfKinds(t *testing.T) {
	agents := []Agent{typed8("a", "A100", 64), typed8("b", "T4", 64)}
	for name, c := range map[string]struct {
		typical []Typical
		want    [2]float64
	}{
		"a quarter":            {[]Typical{{wants(1, 1), 3}, {wants(1, 1, "A100"), 1}}, [2]float64{0.5, 0}},
		"GPUs count":           {[]Typical{{wants(1, 1), 1}, {wants(3, 1, "A100"), 1}}, [2]float64{1, 0}},
		"more than all":        {[]Typical{{wants(1, 1, "A100"), 1}}, [2]float64{1, 0}},
		"either will do":       {[]Typical{{wants(1, 1, "A100", "T4"), 1}}, [2]float64{0, 0}},
		"nobody has it":        {[]Typical{{wants(1, 1, "H100"), 1}, {wants(1, 1, "T4"), 1}}, [2]float64{0, 1}},
		"what takes CPUs only": {[]Typical{{wants(0, 1), 9}, {wants(1, 1), 3}, {wants(1, 1, "T4"), 1}}, [2]float64{0, 0.5}},
	} {
		cluster := NewCluster(agents, Policy{Name: "headroom", Typical: c.typical}, noon)
		for i, want := range c.want {
			if got := cluster.world.frag.scarcity(cluster.world, cluster.rooms[i].kind, false); math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: scarcity of %s is %g, want %g", name, agents[i].Types[0], got, want)
			}
		}
	}
}

// ofType is the agent with devices of another model.
func ofType(a Agent, model string) Agent {
	a.Types = []string{model}
	for g := range a.Inventory {
		a.Inventory[g].Model = model
	}
	return a
}

// partOfOne is a demand for a part of a shared device of 16000 MiB and as much
// of its cores, of some models, any if none.
func partOfOne(mem int64, cpus float64, models ...string) Demand {
	d := wants(1, cpus, models...)
	d.Request.Share = gpu.Share{MemMiB: mem, Cores: int(mem / 160)}
	return d
}

// CPUs for two tasks of a quarter of a device leave half of it idle.
func TestHungerOfPartsByHand(t *testing.T) {
	a := sharedBy("a", "16000/100")
	a.Free = Amount{CPUs: 4}
	c := NewCluster([]Agent{a}, Policy{Name: "headroom", Typical: []Typical{{partOfOne(4000, 2), 1}}}, noon)
	if got := c.fragmented(&c.rooms[0]); math.Abs(got-35) > 1e-9 { // 0.07 of 500
		t.Errorf("idle: %g thousandths are lost, want 35", got)
	}
	d := partOfOne(4000, 0)
	c.Fill(&d, 2)
	if got := c.fragmented(&c.rooms[0]); math.Abs(got) > 1e-9 { // CPUs for what is left
		t.Errorf("with a half taken: %g thousandths are lost, want none", got)
	}
}

// What insists on whole GPUs does not press on shared ones, nor the other way.
// Of the whole ones an eighth must be of a model that half of them are, of the
// shared ones 500 of 2000 thousandths.
func TestPartsAreWeighedApart(t *testing.T) {
	agents := []Agent{
		typed8("a", "A100", 64), typed8("b", "T4", 64),
		ofType(sharedBy("c", "16000/100"), "A100"), ofType(sharedBy("d", "16000/100"), "T4"),
	}
	agents[0].Divisible, agents[1].Divisible = false, false
	p := Policy{Name: "headroom", Typical: []Typical{
		{wants(1, 1), 7}, {wants(1, 1, "A100"), 1}, {partOfOne(4000, 1), 6}, {partOfOne(8000, 1, "A100"), 1},
	}}
	c := NewCluster(agents, p, noon)
	for i, want := range [][2]float64{{0.25, 0.5}, {0, 0}, {0.25, 0.5}, {0, 0}} {
		k := c.rooms[i].kind
		got := [2]float64{c.world.frag.scarcity(c.world, k, false), c.world.frag.scarcity(c.world, k, true)}
		if got != want {
			t.Errorf("scarcity on %s is %g, want %g", agents[i].ID, got, want)
		}
	}
	if got, want := c.world.frag.large, (size{}); got != want { // both agents of whole ones are equal
		t.Errorf("largest are %+v, want %+v", got, want)
	}
	for i := range agents {
		agents[i].Free.CPUs = 64
	}
	if got, want := order(NewCluster(agents, p, noon), partOfOne(8000, 1), 5), "ddcc"; got != want {
		t.Errorf("parts are of %q, want %q and one refused", got, want)
	}
}

// Agents that tell a count and a type are as scarce as those that name their
// devices, and those that tell nothing are of no type.
func TestScarcityByCount(t *testing.T) {
	a, b := counted("a", 8, 64), counted("b", 8, 64)
	a.Types = []string{"A100"}
	p := Policy{Name: "headroom", Typical: []Typical{{wants(1, 1), 1}, {wants(1, 1, "A100"), 1}}}
	if got, want := order(NewCluster([]Agent{a, b}, p, noon), wants(1, 1), 16), "bbbbbbbbaaaaaaaa"; got != want {
		t.Errorf("tasks went to %q, want %q", got, want)
	}
}

// The few largest agents are the last to be broken into, and only as long as
// they are few.
func TestLargestAgentsAreKept(t *testing.T) {
	p := Policy{Name: "headroom", Typical: []Typical{{wants(1, 1), 1}}}
	few := []Agent{named8("a", 8, 128), named8("b", 8, 64), named8("c", 8, 64)}
	if got, want := order(NewCluster(few, p, noon), wants(8, 8), 4), "bca"; got != want {
		t.Errorf("tasks went to %q, want %q", got, want)
	}
	for name, c := range map[string]struct {
		agents []Agent
		want   size
	}{
		"few":                     {few, size{8, 115_200}},
		"half":                    {few[:2], size{}},
		"nearly as large":         {[]Agent{named8("a", 8, 128), named8("b", 8, 120), named8("c", 8, 64)}, size{}},
		"few GPUs and many CPUs":  {[]Agent{named8("a", 2, 999), named8("b", 8, 64), named8("c", 8, 32), named8("d", 8, 32)}, size{8, 57_600}},
		"the largest are in use":  {[]Agent{{ID: "a", TotalGPUs: 16}, named8("b", 8, 64)}, size{16, 0}},
		"nobody knows of any GPU": {[]Agent{counted("a", 0, 9)}, size{}},
	} {
		if got := NewCluster(c.agents, p, noon).world.frag.large; got != c.want {
			t.Errorf("%s: largest are %+v, want %+v", name, got, c.want)
		}
	}
}

// Whatever was placed and given back, scores are those of a cluster that was
// made anew of what is free.
func TestHeadroomForgetsWhatIsUndone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agents := []Agent{typed8("a", "A100", 96), typed8("b", "T4", 96), typed8("c", "T4", 128), named8("d", 2, 64)}
		p := Policy{Name: "headroom", Typical: []Typical{{wants(1, 4), 5}, {wants(8, 64), 1}, {wants(1, 8, "A100"), 2}, {thousandths(250), 4}}}
		var taken []taking
		worn, fresh := NewCluster(agents, p, noon), NewCluster(agents, p, noon)
		for range rapid.IntRange(1, 20).Draw(t, "tasks") {
			d := wants(rapid.IntRange(0, 3).Draw(t, "gpus"), float64(rapid.IntRange(0, 9).Draw(t, "cpus")))
			if d.Request.GPUs == 1 {
				d.Request.Share = Thousandths(from(t, "milli", 0, 250, 600))
			}
			taken = append(taken, taking{&d, worn.Fill(&d, 1)})
		}
		for _, u := range taken {
			worn.Undo(u.d, u.spots)
		}
		for _, d := range []Demand{wants(0, 2), wants(1, 3), wants(4, 16), wants(1, 1, "A100"), thousandths(400)} {
			for i := range agents {
				if got, want := worn.score(i, worn.class(&d)), fresh.score(i, fresh.class(&d)); got != want {
					t.Fatalf("%s scores %d for %+v, want %d", agents[i].ID, got, d, want)
				}
			}
		}
	})
}

// Ranking allocates nothing once profiles are known.
func TestHeadroomAllocatesNothing(t *testing.T) {
	p := Policy{Name: "headroom", Typical: []Typical{{wants(1, 4), 5}, {wants(1, 8, "A100"), 2}, {thousandths(250), 4}}}
	c := NewCluster([]Agent{typed8("a", "A100", 96), typed8("b", "T4", 96)}, p, noon)
	part := thousandths(300)
	part.Amount.CPUs = 1
	c.Fill(&part, 2)
	for name, d := range map[string]Demand{"whole": wants(2, 3), "part": part} {
		cl := c.class(&d)
		if n := testing.AllocsPerRun(100, func() { c.score(0, cl); c.score(1, cl) }); n != 0 {
			t.Errorf("%s: %g allocations", name, n)
		}
	}
}
