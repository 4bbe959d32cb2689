package job

import (
	gocmp "cmp"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// naiveEvictionOrder counts all places again for each removed task.
func naiveEvictionOrder(c SpreadCounter, list []int, value func(t int, field string) string, first, last func(a, b int) int) (order []int) {
	list = slices.Clone(list)
	for len(list) > 0 {
		around := func(t int) int { return c.tasksAt(c.placeValues(func(field string) string { return value(t, field) })) }
		next := slices.MinFunc(list, func(a, b int) int {
			return gocmp.Or(first(a, b), gocmp.Compare(around(b), around(a)), last(a, b))
		})
		c.addAt(c.placeValues(func(field string) string { return value(next, field) }), -1)
		order, list = append(order, next), slices.DeleteFunc(list, func(t int) bool { return t == next })
	}
	return order
}

// TestEvictionOrderMatchesNaiveCount compares EvictionOrder with naiveEvictionOrder, for any places.
func TestEvictionOrderMatchesNaiveCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "tasks")
		place := func(name string) []int {
			return rapid.SliceOfN(rapid.IntRange(0, 3), n, n).Draw(t, name)
		}
		of := map[string][]int{"hostname": place("hosts"), "rack": place("racks")}
		serving := place("serving")
		value := func(task int, field string) string {
			if at := of[field][task]; at > 0 {
				return strconv.Itoa(at)
			}
			return "" // unknown value
		}
		list := make([]int, n)
		crowds := func() SpreadCounter {
			c := NewSpreadCounter([]Constraint{{Field: "hostname", Operator: MaxPer, Value: "2"}, {Field: "rack", Operator: GroupBy}})
			for i := range list {
				list[i] = i
				c.AddTask(func(field string) string { return value(i, field) })
			}
			return c
		}
		first := func(a, b int) int { return gocmp.Compare(serving[a], serving[b]) }
		last := func(a, b int) int { return gocmp.Compare(b, a) }
		want := naiveEvictionOrder(crowds(), list, value, first, last)
		got := slices.Collect(EvictionOrder(crowds(), list, value, first, last))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// BenchmarkLeaving removes half of the tasks of a service with one task on each agent.
func BenchmarkLeaving(b *testing.B) {
	const n = 10_000
	list := make([]int, n)
	value := func(t int, _ string) string { return strconv.Itoa(t) }
	for b.Loop() {
		c := NewSpreadCounter([]Constraint{{Field: "hostname", Operator: Unique}})
		for i := range list {
			list[i] = i
			c.AddTask(func(field string) string { return value(i, field) })
		}
		left := n / 2
		for range EvictionOrder(c, list, value, func(int, int) int { return 0 }, gocmp.Compare[int]) {
			if left--; left == 0 {
				break
			}
		}
	}
}
