package job

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
	"strings"
)

// Spreads tells the constraints that keep a job's tasks apart.
func (c Constraint) Spreads() bool { return c.PerJob() && c.Operator != Cluster }

// Crowds count a group's tasks by where they are: for each constraint that
// keeps them apart, by the value that it compares.
type Crowds []crowd

type crowd struct {
	field string
	count map[string]int
}

// CrowdsOf has an empty count for each constraint that spreads.
func CrowdsOf(constraints []Constraint) Crowds {
	var all Crowds
	for _, c := range constraints {
		if c.Spreads() {
			all = append(all, crowd{c.Field, map[string]int{}})
		}
	}
	return all
}

// Add counts a task by the values that its agent has, "" being none.
func (c Crowds) Add(value func(field string) string) { c.move(c.places(value), 1) }

func (c Crowds) places(value func(field string) string) []string {
	places := make([]string, len(c))
	for i := range c {
		places[i] = value(c[i].field)
	}
	return places
}

func (c Crowds) move(places []string, by int) {
	for i, at := range places {
		c[i].count[at] += by
	}
}

// around is how many tasks are in the places, over all constraints.
func (c Crowds) around(places []string) int {
	n := 0
	for i, at := range places {
		if at != "" {
			n += c[i].count[at]
		}
	}
	return n
}

// Leaving yields tasks in the order in which they go where some have to: by
// first, then those whose places are fullest, then by last. Each that goes
// leaves its places emptier for the next.
func Leaving[T any](c Crowds, list []T, value func(t T, field string) string, first, last func(a, b T) int) iter.Seq[T] {
	return func(yield func(T) bool) {
		lines := c.lines(len(list), func(i int, field string) string { return value(list[i], field) })
		for _, l := range lines {
			slices.SortFunc(l.tasks, func(a, b int) int { return cmp.Or(first(list[a], list[b]), last(list[a], list[b])) })
			l.around = c.around(l.places)
		}
		h := &queue{lines, func(a, b *line) int {
			x, y := list[a.tasks[0]], list[b.tasks[0]]
			return cmp.Or(first(x, y), cmp.Compare(b.around, a.around), last(x, y))
		}}
		heap.Init(h)
		for len(h.lines) > 0 {
			next := h.lines[0]
			// Places only empty, so that what was counted before is never too
			// little: a line that is still first when it is counted anew goes.
			if now := c.around(next.places); now != next.around {
				next.around = now
				heap.Fix(h, 0)
				continue
			}
			if !yield(list[next.tasks[0]]) {
				return
			}
			c.move(next.places, -1)
			if next.tasks = next.tasks[1:]; len(next.tasks) == 0 {
				heap.Pop(h)
				continue
			}
			heap.Fix(h, 0)
		}
	}
}

// line are tasks in the same places, of which only the first may go next.
// around is how many were in them when somebody last counted.
type line struct {
	places []string
	tasks  []int
	around int
}

// queue is a heap of lines.
type queue struct {
	lines   []*line
	compare func(a, b *line) int
}

func (q *queue) Len() int           { return len(q.lines) }
func (q *queue) Less(i, j int) bool { return q.compare(q.lines[i], q.lines[j]) < 0 }
func (q *queue) Swap(i, j int)      { q.lines[i], q.lines[j] = q.lines[j], q.lines[i] }
func (q *queue) Push(l any)         { q.lines = append(q.lines, l.(*line)) }
func (q *queue) Pop() any {
	last := q.lines[len(q.lines)-1]
	q.lines = q.lines[:len(q.lines)-1]
	return last
}

func (c Crowds) lines(n int, value func(i int, field string) string) []*line {
	var lines []*line
	by := map[string]*line{}
	for i := range n {
		places := c.places(func(field string) string { return value(i, field) })
		key := strings.Join(places, "\x00")
		l, ok := by[key]
		if !ok {
			l = &line{places: places}
			by[key], lines = l, append(lines, l)
		}
		l.tasks = append(l.tasks, i)
	}
	return lines
}
