package job

import (
	"cmp"
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
		}
		for len(lines) > 0 {
			next := slices.MinFunc(lines, func(a, b *line) int {
				x, y := list[a.tasks[0]], list[b.tasks[0]]
				return cmp.Or(first(x, y), cmp.Compare(c.around(b.places), c.around(a.places)), last(x, y))
			})
			if !yield(list[next.tasks[0]]) {
				return
			}
			c.move(next.places, -1)
			if next.tasks = next.tasks[1:]; len(next.tasks) == 0 {
				lines = slices.DeleteFunc(lines, func(l *line) bool { return l == next })
			}
		}
	}
}

// line are tasks in the same places, of which only the first may go next.
type line struct {
	places []string
	tasks  []int
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
