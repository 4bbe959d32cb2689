package entitlement

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestDivide includes the cases of Peloton's entitlement calculator: 100 units among three pools.
func TestDivide(t *testing.T) {
	role := func(name string, demand int, edit ...func(*Claim)) Claim {
		c := Claim{Role: name, Limit: -1, Demand: demand}
		for _, e := range edit {
			e(&c)
		}
		return c
	}
	deserves := func(n int) func(*Claim) { return func(c *Claim) { c.Deserved, c.HasDeserved = n, true } }
	limit := func(n int) func(*Claim) { return func(c *Claim) { c.Limit = n } }
	weight := func(w float64) func(*Claim) { return func(c *Claim) { c.Weight = w } }
	for name, c := range map[string]struct {
		capacity int
		claims   []Claim
		want     map[string]int
	}{
		"a small demand is met, the rest is divided": {100, []Claim{role("a", 10), role("b", 80), role("c", 80)}, map[string]int{"a": 10, "b": 45, "c": 45}},
		"equal parts once all demand more":           {99, []Claim{role("a", 50), role("b", 80), role("c", 80)}, map[string]int{"a": 33, "b": 33, "c": 33}},
		"rounded down":                               {100, []Claim{role("a", 50), role("b", 80), role("c", 80)}, map[string]int{"a": 33, "b": 33, "c": 34}},
		"no demand":                                  {100, []Claim{role("a", 0), role("b", 0)}, map[string]int{"a": 0, "b": 0}},
		"nothing to divide":                          {0, []Claim{role("a", 5), role("b", 5, deserves(5))}, map[string]int{"a": 0, "b": 0}},
		"less than capacity is demanded":             {100, []Claim{role("a", 10), role("b", 20)}, map[string]int{"a": 10, "b": 20}},
		"by weight":                                  {90, []Claim{role("a", 90), role("b", 90, weight(2))}, map[string]int{"a": 30, "b": 60}},
		"weight beyond demand goes to the others":    {90, []Claim{role("a", 90), role("b", 10, weight(8))}, map[string]int{"a": 80, "b": 10}},
		"deserved comes first":                       {100, []Claim{role("a", 80, deserves(70)), role("b", 80)}, map[string]int{"a": 80, "b": 20}},
		"unused deserved is lent":                    {100, []Claim{role("a", 10, deserves(70)), role("b", 100)}, map[string]int{"a": 10, "b": 90}},
		"the rest is divided on top of deserved": {100,
			[]Claim{role("a", 100, deserves(40)), role("b", 100, deserves(20))}, map[string]int{"a": 60, "b": 40}},
		"the rest is divided by weight": {100,
			[]Claim{role("a", 100, deserves(40)), role("b", 100, deserves(20), weight(3))}, map[string]int{"a": 50, "b": 50}},
		"deserved without capacity is reduced in proportion": {30,
			[]Claim{role("a", 40, deserves(40)), role("b", 20, deserves(20)), role("c", 9)},
			map[string]int{"a": 20, "b": 10, "c": 0}},
		"a limit":                {100, []Claim{role("a", 100, limit(30)), role("b", 100)}, map[string]int{"a": 30, "b": 70}},
		"a limit below deserved": {100, []Claim{role("a", 100, limit(30), deserves(60)), role("b", 100)}, map[string]int{"a": 30, "b": 70}},
		"a limit of 0":           {100, []Claim{role("a", 100, limit(0)), role("b", 10)}, map[string]int{"a": 0, "b": 10}},
		"children share their parent's part": {100,
			[]Claim{role("a", 0), role("a/x", 90), role("a/y", 90), role("b", 90)},
			map[string]int{"a": 50, "a/x": 25, "a/y": 25, "b": 50}},
		"a child's weight counts among siblings": {80,
			[]Claim{role("a", 0), role("a/x", 90, weight(3)), role("a/y", 90), role("b", 90)},
			map[string]int{"a": 40, "a/x": 30, "a/y": 10, "b": 40}},
		"a sibling borrows inside the parent": {100,
			[]Claim{role("a", 0, deserves(60)), role("a/x", 0, deserves(30)), role("a/y", 60, deserves(30)), role("b", 100, deserves(40))},
			map[string]int{"a": 60, "a/x": 0, "a/y": 60, "b": 40}},
		"a parent's own jobs": {100,
			[]Claim{role("a", 100, deserves(60)), role("a/x", 100, deserves(40)), role("b", 100, deserves(40))},
			map[string]int{"a": 60, "a/x": 40, "b": 40}},
		"children deserve, the parent says nothing": {100, []Claim{
			role("a", 0), role("a/x", 100, deserves(50)), role("b", 100),
		}, map[string]int{"a": 75, "a/x": 75, "b": 25}},
		"a parent that is not listed": {90, []Claim{role("a/x", 90), role("a/y", 90), role("b", 90)}, map[string]int{"a/x": 30, "a/y": 30, "b": 30}},
		"a grandparent":               {90, []Claim{role("a", 0), role("a/b/c", 90), role("d", 90)}, map[string]int{"a": 45, "a/b/c": 45, "d": 45}},
		"a parent's limit bounds its children": {100,
			[]Claim{role("a", 0, limit(20)), role("a/x", 90, deserves(10)), role("a/y", 90), role("b", 90)},
			map[string]int{"a": 20, "a/x": 15, "a/y": 5, "b": 80}},
		"similar names are not below": {90, []Claim{role("a", 90), role("ab", 90), role("a-b/c", 90)}, map[string]int{"a": 30, "ab": 30, "a-b/c": 30}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Divide(c.capacity, c.claims)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			slices.Reverse(c.claims)
			if diff := cmp.Diff(c.want, Divide(c.capacity, c.claims)); diff != "" {
				t.Errorf("in the opposite order (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEntitlementsAreFair: nothing is wasted while some demand is unmet, no role gets more than it demands or less than
// it deserves, and among siblings no role gets more beyond what it deserves than one that still demands.
func TestEntitlementsAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(0, 2000).Draw(t, "capacity")
		var claims []Claim
		deserved := 0
		for i := range rapid.IntRange(1, 6).Draw(t, "roles") {
			c := Claim{Role: fmt.Sprintf("r%d", i), Weight: float64(rapid.IntRange(1, 4).Draw(t, "weight")), Demand: rapid.IntRange(0, 900).Draw(t, "demand"), Limit: -1}
			if rapid.Bool().Draw(t, "deserves") {
				c.Deserved, c.HasDeserved = rapid.IntRange(0, 500).Draw(t, "deserved"), true
			}
			if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
				c.Limit = rapid.IntRange(0, 900).Draw(t, "limit")
			}
			deserved += c.Deserved
			claims = append(claims, c)
		}
		got := Divide(capacity, claims)
		sum, demand := 0, 0
		for _, n := range got {
			sum += n
		}
		wants := func(c *Claim) int {
			if c.Limit >= 0 {
				return min(c.Demand, c.Limit)
			}
			return c.Demand
		}
		for i := range claims {
			c := &claims[i]
			demand += wants(c)
			if got[c.Role] > wants(c) {
				t.Fatalf("%s demands %d and is entitled to %d", c.Role, wants(c), got[c.Role])
			}
			if deserved <= capacity && got[c.Role] < min(wants(c), c.Deserved) {
				t.Fatalf("%s demands %d, deserves %d and is entitled to %d", c.Role, wants(c), c.Deserved, got[c.Role])
			}
		}
		if want := min(capacity, demand); sum > want || sum < want-len(claims) {
			t.Fatalf("%d of %d are granted: %v", sum, want, got)
		}
		if deserved > capacity {
			return
		}
		above := func(c *Claim) float64 { return float64(got[c.Role]-min(wants(c), c.Deserved)) / c.Weight }
		for i := range claims {
			for k := range claims {
				if a, b := &claims[i], &claims[k]; got[a.Role] < wants(a) && above(b) > above(a)+float64(len(claims)) {
					t.Fatalf("%s demands more and has %g for its weight beyond what it deserves, %s has %g: %v", a.Role, above(a), b.Role, above(b), got)
				}
			}
		}
	})
}

// TestEntitlementOfTree: what children get is what their parent gets, and equal claims give equal results in any order.
func TestEntitlementOfTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var claims []Claim
		for _, top := range []string{"a", "b"} {
			children := 0
			for _, below := range []string{"/x", "/y", "/y/z"} {
				if rapid.Bool().Draw(t, "child") {
					n := rapid.IntRange(0, 50).Draw(t, "deserved")
					if below == "/y/z" {
						n = 0
					}
					claims = append(claims, Claim{Role: top + below, Limit: -1, Deserved: n, HasDeserved: n > 0, Demand: rapid.IntRange(0, 300).Draw(t, "demand")})
					children += n
				}
			}
			claims = append(claims, Claim{
				Role:        top,
				Limit:       -1,
				Deserved:    children + rapid.IntRange(0, 50).Draw(t, "own"),
				HasDeserved: true,
				Demand:      rapid.IntRange(0, 100).Draw(t, "demand of "+top),
			})
		}
		capacity := rapid.IntRange(300, 1000).Draw(t, "capacity")
		got := Divide(capacity, claims)
		for _, c := range claims {
			below := 0
			for _, o := range claims {
				if o.Role == c.Role+"/x" || o.Role == c.Role+"/y" {
					below += got[o.Role]
				}
			}
			if below > got[c.Role] {
				t.Fatalf("the roles below %s get %d, it gets %d", c.Role, below, got[c.Role])
			}
		}
		if again := Divide(capacity, rapid.Permutation(claims).Draw(t, "order")); !maps.Equal(got, again) {
			t.Fatalf("%v in another order: %v", got, again)
		}
	})
}
