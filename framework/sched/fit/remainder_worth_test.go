package fit

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The worth of remainders by manual calculation:
//
//	two tasks of a half fill a GPU, and three of a third do: they are worth as much;
//	a third and two thirds fill a GPU: two thirds are worth the rest.
func TestRemainderWorthByHand(t *testing.T) {
	w := newRemainderWorth([]taskSize{{330, 300}, {500, 200}, {660, 200}})
	for milli, want := range map[int]float64{0: 0, 329: 0, 330: 1.0 / 3, 499: 1.0 / 3, 500: 0.5, 659: 0.5, 660: 2.0 / 3, 830: 5.0 / 6, 1000: 1} {
		if got := w.gpus[milli]; math.Abs(got-want) > 1e-6 {
			t.Errorf("%d thousandths are worth %.3f GPUs, want %.3f", milli, got, want)
		}
	}
	// Of tasks of more than a third, two fit a GPU. Where they are frequent, each is worth half a GPU, and so is what one leaves.
	w = newRemainderWorth([]taskSize{{340, 900}, {660, 100}})
	if small, large := w.gpus[340], w.gpus[660]; math.Abs(small-0.5) > 1e-6 || math.Abs(large-0.5) > 1e-6 {
		t.Errorf("got %.3f and %.3f GPUs, want 0.5 each", small, large)
	}
}

// A whole GPU is worth 1. A larger remainder is not worth less, and parts of a remainder are not worth more than all of it.
func TestRemainderWorthIsConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sizes []taskSize
		for _, milli := range rapid.SliceOfNDistinct(rapid.IntRange(1, wholeDevice), 1, 12, rapid.ID[int]).Draw(t, "sizes") {
			sizes = append(sizes, taskSize{milli, rapid.IntRange(1, 1000).Draw(t, "per mille")})
		}
		slices.SortFunc(sizes, func(a, b taskSize) int { return a.milli - b.milli })
		w := newRemainderWorth(sizes).gpus
		if w[0] != 0 || w[wholeDevice] != 1 || !slices.IsSorted(w[:]) {
			t.Fatalf("worth is from %g to %g, ascending: %v", w[0], w[wholeDevice], slices.IsSorted(w[:]))
		}
		for range 20 {
			a := rapid.IntRange(0, wholeDevice).Draw(t, "a")
			b := rapid.IntRange(0, wholeDevice-a).Draw(t, "b")
			if w[a]+w[b] > w[a+b]+1e-4 {
				t.Fatalf("%d and %d thousandths are worth %g and %g GPUs, and together %g", a, b, w[a], w[b], w[a+b])
			}
		}
	})
}

// A share goes where the rest of the GPU remains useful. Next to a task of 470 thousandths, one of 320 would leave 210, which no
// task fills, instead of 530 for another of 470. On an idle GPU it leaves room for one of 650. For fgd an idle GPU is useful to
// more tasks.
func TestShareLeavesRemaindersThatTasksFill(t *testing.T) {
	typical := []TypicalTask{
		{Demand: milliDemand(470), Weight: 2},
		{Demand: milliDemand(320), Weight: 1},
		{Demand: milliDemand(650), Weight: 1},
		{Demand: wantsGPUs(1, 0), Weight: 2},
	}
	agents := []AgentResources{eightNamedGPUs("a", 1, 8), eightNamedGPUs("b", 1, 8)}
	for _, x := range []struct {
		policy string
		cpus   float64 // of a typical task
		want   string
	}{{"fgd", 0, "aa"}, {"headroom", 0, "ab"}, {"headroom", 3, "ab"}, {"headroom", 8, "aa"}} { // 8: the CPUs run out before the GPUs
		mix := slices.Clone(typical)
		for i := range mix {
			mix[i].Demand.Amount.CPUs = x.cpus
		}
		c := NewCluster(agents, PlacementPolicy{Name: x.policy, Typical: mix}, noon)
		if got := placementOrder(c, milliDemand(470), 1) + placementOrder(c, milliDemand(320), 1); got != x.want {
			t.Errorf("%s, %g CPUs: the tasks went to %q, want %q", x.policy, x.cpus, got, x.want)
		}
	}
}

// The same with shared devices.
func TestShareLeavesRemaindersOfSharedDevices(t *testing.T) {
	typical := []TypicalTask{
		{Demand: shareOfOne(8000, 1), Weight: 2},
		{Demand: shareOfOne(5280, 1), Weight: 1},
		{Demand: shareOfOne(10560, 1), Weight: 1},
		{Demand: shareOfOne(16000, 1), Weight: 2},
	}
	a, b := sharedByMethod("a", "16000/100"), sharedByMethod("b", "16000/100")
	a.Free, b.Free = Amount{CPUs: 8}, Amount{CPUs: 8}
	for policy, want := range map[string]string{"fgd": "aa", "headroom": "ab"} {
		c := NewCluster([]AgentResources{a, b}, PlacementPolicy{Name: policy, Typical: typical}, noon)
		if got := placementOrder(c, shareOfOne(8000, 1), 1) + placementOrder(c, shareOfOne(5280, 1), 1); got != want {
			t.Errorf("%s: the tasks went to %q, want %q", policy, got, want)
		}
	}
}

// What is left of a shared device is the lesser of its memory and its cores.
func TestRemainderOfSharedDevice(t *testing.T) {
	for free, want := range map[string]int32{"16000/100": 1000, "8000/50": 500, "8000/90": 500, "14000/50": 500, "0/100": 0} {
		c := NewCluster([]AgentResources{sharedByMethod("a", free)}, PlacementPolicy{}, noon)
		r := &c.capacities[0]
		if got := c.remainderMilli(r, 0, c.sharesOf(r)[0].free); got != want {
			t.Errorf("%s: %d thousandths, want %d", free, got, want)
		}
	}
}

// The worth of remainders is computed once for the same typical tasks, also if a few of many tasks came or went.
func TestRemainderWorthIsKept(t *testing.T) {
	mix := func(halves float64) []TypicalTask {
		return []TypicalTask{{Demand: milliDemand(500), Weight: halves}, {Demand: milliDemand(300), Weight: 3000}}
	}
	c := NewCluster([]AgentResources{eightNamedGPUs("a", 1, 8)}, PlacementPolicy{Name: "headroom", Typical: mix(5000)}, noon)
	before := c.fragmentation.remainders
	for halves, same := range map[float64]bool{5000: true, 5001: true, 9000: false} {
		if !c.UpdateAgents(slices.Values([]AgentResources(nil)), mix(halves), noon) {
			t.Fatal("the cluster was not updated")
		}
		if got := c.fragmentation.remainders == before; got != same {
			t.Errorf("%g tasks: kept is %v, want %v", halves, got, same)
		}
	}
	if c := NewCluster(c.index.agents, PlacementPolicy{Name: "fgd", Typical: mix(5000)}, noon); c.fragmentation.remainders != nil {
		t.Error("fgd values remainders")
	}
}

// Typical tasks have at most maxTaskSizes sizes, the most frequent ones.
func TestMostFrequentTaskSizes(t *testing.T) {
	var typical []TypicalTask
	for i := range 2 * maxTaskSizes {
		typical = append(typical, TypicalTask{Demand: milliDemand(900 - 10*i), Weight: float64(1 + i)})
	}
	c := NewCluster([]AgentResources{eightNamedGPUs("a", 1, 8)}, PlacementPolicy{Name: "headroom", Typical: typical}, noon)
	sizes := c.fragmentation.remainders.sizes
	if len(sizes) != maxTaskSizes || sizes[0].milli != 270 || sizes[len(sizes)-1].milli != 580 {
		t.Errorf("got %d sizes from %d to %d, want %d from 270 to 580", len(sizes), sizes[0].milli, sizes[len(sizes)-1].milli, maxTaskSizes)
	}
}
