package fit

import (
	"fmt"
	"slices"
	"testing"
)

// Typical tasks are the most frequent kinds that together are 95 % of all. If none of them requires types, the others that
// do are rare.
func TestSelectTypicalTasks(t *testing.T) {
	common, other := wantsGPUs(1, 1), wantsGPUs(1, 2)
	typed, typedToo := wantsGPUs(1, 1, "A100"), wantsGPUs(2, 1, "T4")
	large, cpus := wantsGPUs(1, 3), wantsGPUs(0, 9, "A100")
	large.Request.MinMemMiB = 40_000
	for name, c := range map[string]struct {
		kinds []TypicalTask
		limit int
		want  string
	}{
		"none":                  {nil, 9, ""},
		"the rest is not typed": {[]TypicalTask{{Demand: common, Weight: 95}, {Demand: other, Weight: 5}}, 9, "95 "},
		"the rest is typed": {[]TypicalTask{{Demand: common, Weight: 95}, {Demand: typed, Weight: 3}, {Demand: other, Weight: 1}, {Demand: large, Weight: 1}},
			9, "95 3r 1r "},
		"typed and frequent": {[]TypicalTask{{Demand: typed, Weight: 90}, {Demand: common, Weight: 6}, {Demand: typedToo, Weight: 4}}, 9, "90 6 "},
		"types without GPUs": {[]TypicalTask{{Demand: common, Weight: 95}, {Demand: cpus, Weight: 5}}, 9, "95 "},
		"a limit for each": {[]TypicalTask{{Demand: common, Weight: 4}, {Demand: typed, Weight: 3}, {Demand: other, Weight: 2}, {Demand: typedToo, Weight: 1}},
			1, "4 3r "},
		"up to the last": {[]TypicalTask{{Demand: common, Weight: 1}, {Demand: typed, Weight: 1}}, 9, "1 1 "},
	} {
		before, got := slices.Clone(c.kinds), ""
		for _, k := range SelectTypicalTasks(c.kinds, c.limit) {
			got += fmt.Sprint(k.Weight)
			if k.Rare {
				got += "r"
			}
			got += " "
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		for i := range before {
			if c.kinds[i].Rare {
				t.Errorf("%s: kind %d of the argument was changed", name, i)
			}
		}
	}
}

// Tasks for any model leave GPUs to rare tasks that require them, as to typical ones. Fragmentation does not count rare
// tasks, so that fgd ignores them.
func TestRareTasksMakeTypesScarce(t *testing.T) {
	agents := []AgentResources{eightTypedGPUs("a", "A100", 64), eightTypedGPUs("b", "T4", 64)}
	typical := []TypicalTask{{Demand: wantsGPUs(1, 1), Weight: 19}}
	rare := append(slices.Clone(typical), TypicalTask{Demand: wantsGPUs(1, 1, "A100"), Weight: 1, Rare: true})
	for name, want := range map[string]string{"headroom": "bbbbbbbb", "fgd": "aaaaaaaa"} {
		c := NewCluster(agents, PlacementPolicy{Name: name, Typical: rare}, noon)
		if got := placementOrder(c, wantsGPUs(1, 1), 8); got != want {
			t.Errorf("%s: tasks for any model went to %q, want %q", name, got, want)
		}
	}
	c := NewCluster(agents, PlacementPolicy{Name: "headroom", Typical: rare}, noon)
	if got := scarcityOn(c, 0, false); got != 0.1 { // a twentieth of the demand requires half of the GPUs
		t.Errorf("scarcity of A100 is %g, want 0.1", got)
	}
	d := wantsGPUs(0, 60)
	c.PlaceTasks(&d, 2)
	for _, list := range [][]TypicalTask{typical, rare} {
		if got := c.MeasureFragmentation(list); got != 0 {
			t.Errorf("fragmentation is %g, want 0", got)
		}
	}
}
