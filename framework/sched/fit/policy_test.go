package fit

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/gpu"
)

func TestPolicyNames(t *testing.T) {
	if diff := cmp.Diff([]string{"headroom", "binpack", "spread", "fgd", "topology"}, PolicyNames()); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
	for _, name := range PolicyNames() {
		p, err := PlacementPolicy{Name: name}, ValidatePolicyName(name, PolicyNames())
		if err != nil || p.findScorer().name != name {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
	}
	if diff := cmp.Diff([]string{"random", "dotprod", "clustering", "packing", "bestfit"}, BaselineNames()); diff != "" {
		t.Errorf("baselines (-want +got):\n%s", diff)
	}
	if err := ValidatePolicyName("random", PolicyNames()); err == nil {
		t.Error("a scheduler may use random")
	}
	err := ValidatePolicyName("best", PolicyNames())
	if err == nil || err.Error() != `policy "best" is not one of headroom, binpack, spread, fgd, topology` {
		t.Errorf("unknown name: %v", err)
	}
	if got := (&PlacementPolicy{}).findScorer().name; got != "headroom" {
		t.Errorf("the default is %s", got)
	}
}

// countedGPUs returns an agent with free CPUs and free GPUs, offered by count.
func countedGPUs(id string, gpus int, cpus float64) AgentResources {
	return AgentResources{ID: id, Free: Amount{CPUs: cpus}, GPUs: gpus, TotalGPUs: gpus}
}

func TestPolicyOrder(t *testing.T) {
	pair := func(id, links string) AgentResources {
		a := linkedAgent(repeatValue(4, v100), repeatValue(4, -1), links)
		a.ID, a.Free.CPUs = id, 4
		return a
	}
	gpus := Demand{Request: gpu.Request{GPUs: 1}}
	cpus := Demand{Amount: Amount{CPUs: 1}}
	for _, c := range []struct {
		name, policy string
		agents       []AgentResources
		d            Demand
		n            int
		want         string
	}{
		{"fewest GPUs", "binpack", []AgentResources{countedGPUs("a", 3, 1), countedGPUs("b", 2, 9)}, gpus, 4, "bbaa"},
		{"fewest CPUs", "binpack", []AgentResources{countedGPUs("a", 2, 9), countedGPUs("b", 2, 1)}, gpus, 3, "bba"},
		{"first by id", "binpack", []AgentResources{countedGPUs("a", 2, 1), countedGPUs("b", 2, 1)}, gpus, 3, "aab"},
		{"none of the GPUs", "binpack", []AgentResources{countedGPUs("a", 1, 1), countedGPUs("b", 0, 9)}, cpus, 2, "bb"},
		{"most GPUs", "spread", []AgentResources{countedGPUs("a", 3, 1), countedGPUs("b", 2, 9)}, gpus, 4, "abab"},
		{"most CPUs", "spread", []AgentResources{countedGPUs("a", 0, 2), countedGPUs("b", 0, 3)}, cpus, 4, "baba"},
		{"none of the GPUs, spread", "spread", []AgentResources{countedGPUs("a", 9, 9), countedGPUs("b", 0, 1)}, cpus, 2, "ba"},
		{"none of the GPUs, fgd", "fgd", []AgentResources{countedGPUs("a", 9, 9), countedGPUs("b", 0, 1)}, cpus, 2, "ba"},
		{"none of the GPUs, headroom", "headroom", []AgentResources{countedGPUs("a", 9, 9), countedGPUs("b", 0, 1)}, cpus, 2, "ba"},
		{"headroom without typical tasks", "headroom", []AgentResources{countedGPUs("a", 3, 1), countedGPUs("b", 2, 9)}, gpus, 4, "bbaa"},
		{"fgd without typical tasks", "fgd", []AgentResources{countedGPUs("a", 3, 1), countedGPUs("b", 2, 9)}, gpus, 4, "bbaa"},
		{"most links", "topology", []AgentResources{pair("a", "01"), pair("b", "01:2")}, Demand{Request: gpu.Request{GPUs: 2}}, 2, "ba"},
		{"fewest broken", "topology", []AgentResources{pair("a", "01 12 23"), pair("b", "01")}, gpus, 2, "bb"},
		{"none of the GPUs, topology", "topology", []AgentResources{pair("a", ""), countedGPUs("b", 0, 1)}, cpus, 1, "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := NewCluster(c.agents, PlacementPolicy{Name: c.policy}, noon)
			got := ""
			for _, s := range cluster.PlaceTasks(&c.d, c.n) {
				got += cluster.Agents()[s.Agent].ID
			}
			if got != c.want {
				t.Errorf("placed on %q, want %q", got, c.want)
			}
		})
	}
}

// makeDivisible returns the agent with divisible devices, as in recorded traces.
func makeDivisible(a AgentResources) AgentResources {
	a.Divisible = true
	return a
}

func TestSharesOfOneDevice(t *testing.T) {
	for policy, want := range map[string]string{"binpack": "00 00 01 00", "spread": "00 01 02 01", "topology": "00 00 01 00", "headroom": "00 00 01 00"} {
		c := NewCluster([]AgentResources{makeDivisible(linkedAgent(repeatValue(3, v100), repeatValue(3, -1), ""))}, PlacementPolicy{Name: policy}, noon)
		got := ""
		for _, milli := range []int{400, 300, 500, 300} {
			for _, s := range c.PlaceTasks(&Demand{Request: gpu.Request{GPUs: 1, Share: MilliShare(milli)}}, 1) {
				got += " " + s.Shares[0].UUID
			}
		}
		if got != " "+want {
			t.Errorf("%s: shares come of%s, want %s", policy, got, want)
		}
	}
}

// What is left of shared devices counts. It decides between agents that are equal
// otherwise.
func TestPartialDevicesCountAsFree(t *testing.T) {
	share := func(milli int, of ...string) *Demand {
		return &Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.DeviceSelector{Include: of}, Share: MilliShare(milli)}}
	}
	for policy, want := range map[string]int{"binpack": 0, "spread": 1, "fgd": 0, "topology": 0, "headroom": 0} {
		a := makeDivisible(linkedAgent(repeatValue(1, v100), repeatValue(1, -1), ""))
		b := similarAgent(a, 1)
		p := PlacementPolicy{Name: policy, Typical: []TypicalTask{{Demand: *share(300), Weight: 1}}}
		c := NewCluster([]AgentResources{a, b}, p, noon)
		c.PlaceTasks(share(800, a.DeviceIDs...), 1)
		c.PlaceTasks(share(500, b.DeviceIDs...), 1)
		if spots := c.Clone().PlaceTasks(share(100), 1); len(spots) != 1 || spots[0].Agent != want {
			t.Errorf("%s: a small share is placed at %+v, want %d", policy, spots, want)
		}
		if spots := c.PlaceTasks(share(400), 1); len(spots) != 1 || spots[0].Agent != 1 {
			t.Errorf("%s: a large share is placed at %+v, want agent 1", policy, spots)
		}
	}
}

// An agent with GPUs by count does not share its score with one whose GPUs with
// IDs are taken.
func TestNamedAndCountedGPUsScoreSeparately(t *testing.T) {
	a := linkedAgent(repeatValue(1, v100), repeatValue(1, -1), "")
	b := similarAgent(a, 1)
	a.GPUs, b.GPUs, b.DeviceIDs = 3, 2, nil
	for _, policy := range PolicyNames() {
		c := NewCluster([]AgentResources{a, b}, PlacementPolicy{Name: policy}, noon)
		c.PlaceTasks(&Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.DeviceSelector{Include: a.DeviceIDs}}}, 1)
		if spots := c.PlaceTasks(&Demand{Request: gpu.Request{GPUs: 2}}, 1); len(spots) != 1 || spots[0].Agent != 1 {
			t.Errorf("%s: got %+v, want agent 1", policy, spots)
		}
	}
}

// TestFGDByHand compares one score with a manual calculation. Two agents have one
// and two idle GPUs; typical tasks take one GPU (weight 3) or two (weight 1).
//
//	agent a, 1 GPU:  before 1000·1/4 (the two cannot run), after 0: gain 250
//	agent b, 2 GPUs: before 0, after 1000·1/4: gain -250
//
// sigmoid(0.25) = 0.562, sigmoid(-0.25) = 0.437.
func TestFGDByHand(t *testing.T) {
	p := PlacementPolicy{Name: "fgd", Typical: []TypicalTask{
		{Demand: Demand{Request: gpu.Request{GPUs: 1}}, Weight: 3}, {Demand: Demand{Request: gpu.Request{GPUs: 2}}, Weight: 1},
	}}
	c := NewCluster([]AgentResources{countedGPUs("a", 1, 1), countedGPUs("b", 2, 1)}, p, noon)
	cl := c.classifyDemand(&Demand{Request: gpu.Request{GPUs: 1}})
	if got := []int64{c.scoreAgent(0, cl) - 1, c.scoreAgent(1, cl) - 1}; !slices.Equal(got, []int64{56, 43}) {
		t.Errorf("scores are %v, want 56 and 43", got)
	}
	// Without CPUs the GPU that is left is stranded: 1000 more thousandths that
	// no task can use.
	p.Typical[0].Demand.Amount.CPUs, p.Typical[1].Demand.Amount.CPUs = 1, 1
	c = NewCluster([]AgentResources{countedGPUs("b", 2, 1)}, p, noon)
	cl = c.classifyDemand(&Demand{Amount: Amount{CPUs: 1}, Request: gpu.Request{GPUs: 1}})
	if got := c.scoreAgent(0, cl) - 1; got != 26 { // sigmoid(-1) = 0.268
		t.Errorf("score is %d, want 26", got)
	}
}

// TestFragmentationModelsAgree compares the sum over profiles with the sum over
// devices and typical tasks.
func TestFragmentationModelsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := PlacementPolicy{Name: drawFrom(t, "policy", "fgd", "headroom")}
		for i := range rapid.IntRange(1, 6).Draw(t, "typical") {
			d := Demand{Amount: Amount{CPUs: float64(rapid.IntRange(0, 4).Draw(t, "cpus")), MemMiB: float64(rapid.IntRange(0, 2).Draw(t, "mem"))}}
			d.Request.GPUs = rapid.IntRange(0, 4).Draw(t, "gpus")
			d.Request.Types.Include = drawFrom(t, "types", nil, []string{"V100"}, []string{"K80"})
			if d.Request.GPUs == 1 {
				d.Request.Share = MilliShare(drawFrom(t, "milli", 0, 250, 500, 1000))
			}
			p.Typical = append(p.Typical, TypicalTask{Demand: d, Weight: float64(i + 1)})
		}
		a := makeDivisible(linkedAgent(repeatValue(4, v100), repeatValue(4, -1), ""))
		a.Free = Amount{CPUs: float64(rapid.IntRange(0, 12).Draw(t, "free")), MemMiB: 4}
		c := NewCluster([]AgentResources{a}, p, noon)
		for range rapid.IntRange(0, 3).Draw(t, "tasks") {
			d := &Demand{Amount: Amount{CPUs: 1, MemMiB: 1}, Request: gpu.Request{GPUs: rapid.IntRange(1, 2).Draw(t, "take")}}
			if d.Request.GPUs == 1 {
				d.Request.Share = MilliShare(drawFrom(t, "part", 0, 250, 500))
			}
			c.PlaceTasks(d, 1)
		}
		r := &c.capacities[0]
		s := &projectedState{free: r.free, wholeGPUs: int(r.freeGPUs()), slot: -1}
		quick, slow := c.fragmentationIf(r, s), c.fragmentationBySlot(r, &r.free, c.projectShares(r))
		if math.Abs(quick-slow) > 1e-6 {
			t.Fatalf("quick %v, slow %v", quick, slow)
		}
	})
}

// Devices of different models are measured one by one.
func TestFGDOnMixedAgents(t *testing.T) {
	p := PlacementPolicy{Name: "fgd", Typical: []TypicalTask{
		{Demand: Demand{Request: gpu.Request{GPUs: 2, Types: gpu.TypeSelector{Include: []string{"A100"}}}}, Weight: 1},
		{Demand: Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"V100"}}}}, Weight: 1},
	}}
	agents := []AgentResources{linkedAgent([]string{v100, a100, a100}, repeatValue(3, -1), ""), linkedAgent([]string{v100, v100, a100}, repeatValue(3, -1), "")}
	agents[1].ID = "b"
	c := NewCluster(agents, p, noon)
	// On a, an A100 would break the pair; on b, no task needs the A100.
	spots := c.PlaceTasks(&Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"A100"}}}}, 2)
	got := ""
	for _, s := range spots {
		got += fmt.Sprint(c.Agents()[s.Agent].ID, s.DeviceIDs)
	}
	if want := "b[02]a[01]"; got != want {
		t.Errorf("placed on %s, want %s", got, want)
	}
}
