package job

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
	"strings"
)

// SpreadsTasks reports whether the constraint keeps a job's tasks apart.
func (c Constraint) SpreadsTasks() bool { return c.DependsOnPeers() && c.Operator != Cluster }

// SpreadCounter counts the tasks of a group by place: for each constraint that spreads
// tasks, by the value that the constraint compares.
type SpreadCounter []spreadCount

// spreadCount is how many tasks of the group have each value of a field.
type spreadCount struct {
	field string
	count map[string]int
}

// NewSpreadCounter returns empty counts for the constraints that spread tasks.
func NewSpreadCounter(constraints []Constraint) SpreadCounter {
	var all SpreadCounter
	for _, c := range constraints {
		if c.SpreadsTasks() {
			all = append(all, spreadCount{c.Field, map[string]int{}})
		}
	}
	return all
}

// AddTask counts a task on an agent with these values. "" means no value.
func (c SpreadCounter) AddTask(value func(field string) string) { c.addAt(c.placeValues(value), 1) }

// placeValues returns the places of a task: its value of each field, in the order of c.
func (c SpreadCounter) placeValues(value func(field string) string) []string {
	places := make([]string, len(c))
	for i := range c {
		places[i] = value(c[i].field)
	}
	return places
}

// addAt adds by tasks to places that placeValues has returned.
func (c SpreadCounter) addAt(places []string, by int) {
	for i, at := range places {
		c[i].count[at] += by
	}
}

// tasksAt returns the number of tasks in the places, over all constraints.
func (c SpreadCounter) tasksAt(places []string) int {
	n := 0
	for i, at := range places {
		if at != "" {
			n += c[i].count[at]
		}
	}
	return n
}

// EvictionOrder yields tasks in the order in which they should be removed: by first,
// then those in the fullest places, then by last. Each removed task leaves its places
// emptier for the next comparison. It changes c. Tasks in equal places are compared once
// by sorting, and groups of them with a heap, so that a list of n tasks takes n log n steps.
func EvictionOrder[T any](c SpreadCounter, list []T, value func(t T, field string) string, first, last func(a, b T) int) iter.Seq[T] {
	return func(yield func(T) bool) {
		groups := c.groupByPlace(len(list), func(i int, field string) string { return value(list[i], field) })
		for _, g := range groups {
			slices.SortFunc(g.tasks, func(a, b int) int { return cmp.Or(first(list[a], list[b]), last(list[a], list[b])) })
			g.counted = c.tasksAt(g.places)
		}
		h := &evictionHeap{groups, func(a, b *placeGroup) int {
			x, y := list[a.tasks[0]], list[b.tasks[0]]
			return cmp.Or(first(x, y), cmp.Compare(b.counted, a.counted), last(x, y))
		}}
		heap.Init(h)
		for len(h.groups) > 0 {
			next := h.groups[0]
			// Counts only decrease, so an old count is never too small: a group
			// that is still first after it is counted again is the right one.
			if now := c.tasksAt(next.places); now != next.counted {
				next.counted = now
				heap.Fix(h, 0)
				continue
			}
			if !yield(list[next.tasks[0]]) {
				return
			}
			c.addAt(next.places, -1)
			if next.tasks = next.tasks[1:]; len(next.tasks) == 0 {
				heap.Pop(h)
				continue
			}
			heap.Fix(h, 0)
		}
	}
}

// placeGroup is the tasks in the same places.
type placeGroup struct {
	places []string
	// tasks are indexes in the list, sorted: only the first may go next.
	tasks []int
	// counted is the number of tasks in these places when the group was last counted.
	counted int
}

// evictionHeap is a heap of groups.
type evictionHeap struct {
	groups  []*placeGroup
	compare func(a, b *placeGroup) int
}

func (h *evictionHeap) Len() int           { return len(h.groups) }
func (h *evictionHeap) Less(i, j int) bool { return h.compare(h.groups[i], h.groups[j]) < 0 }
func (h *evictionHeap) Swap(i, j int)      { h.groups[i], h.groups[j] = h.groups[j], h.groups[i] }
func (h *evictionHeap) Push(l any)         { h.groups = append(h.groups, l.(*placeGroup)) }
func (h *evictionHeap) Pop() any {
	last := h.groups[len(h.groups)-1]
	h.groups = h.groups[:len(h.groups)-1]
	return last
}

// groupByPlace returns the tasks 0 to n-1 in groups by their places.
func (c SpreadCounter) groupByPlace(n int, value func(i int, field string) string) []*placeGroup {
	var groups []*placeGroup
	byPlaces := map[string]*placeGroup{}
	for i := range n {
		places := c.placeValues(func(field string) string { return value(i, field) })
		key := strings.Join(places, "\x00")
		g, ok := byPlaces[key]
		if !ok {
			g = &placeGroup{places: places}
			byPlaces[key], groups = g, append(groups, g)
		}
		g.tasks = append(g.tasks, i)
	}
	return groups
}
