package job

import (
	"maps"
	"slices"
)

// Matrix makes a job one task for each combination of its axes' values, in the
// words of GitHub's matrices
// (https://docs.github.com/en/actions/how-tos/write-workflows/choose-what-workflows-do/run-job-variations).
type Matrix struct {
	// Axes vary in their order, the last one fastest.
	Axes []MatrixAxis `json:"axes,omitempty"`
	// Exclude leaves out the combinations that have all values of one entry.
	Exclude []map[string]string `json:"exclude,omitempty"`
	// Include adds the values of an entry to the combinations that it agrees
	// with on every axis; one that agrees with none is one more combination.
	Include []map[string]string `json:"include,omitempty"`
}

// MatrixAxis is a name and the values that it takes.
type MatrixAxis struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// Combinations counts them and finds the values of a task's by its index: first
// those of the axes, then what Include adds. None is made before it is asked
// for; there is none beyond the last.
func (m *Matrix) Combinations() (count int, of func(index int) map[string]string) {
	excluded, included := m.entryPatterns(m.Exclude), m.entryPatterns(m.Include)
	var crossed []int // numbers that Exclude leaves
	met := make([]bool, len(included))
	at := make([]int, len(m.Axes))
	for number := range m.crossingCount() {
		m.splitIndex(number, at)
		if slices.ContainsFunc(excluded, func(p entryPattern) bool { return p.matchesAt(at) }) {
			continue
		}
		crossed = append(crossed, number)
		for i, p := range included {
			met[i] = met[i] || p.matchesAt(at)
		}
	}
	var lone []map[string]string
	for i, entry := range m.Include {
		if !met[i] {
			lone = append(lone, entry)
		}
	}
	return len(crossed) + len(lone), func(index int) map[string]string {
		switch {
		case index < len(crossed):
			return m.valuesAt(crossed[index], included)
		case index < len(crossed)+len(lone):
			return maps.Clone(lone[index-len(crossed)])
		}
		return nil
	}
}

// crossingCount is how many there are of the axes' values.
func (m *Matrix) crossingCount() int {
	if len(m.Axes) == 0 {
		return 0
	}
	return m.axesProduct()
}

// splitIndex finds the value of each axis, by its place, in a crossing.
func (m *Matrix) splitIndex(number int, at []int) {
	for i := len(m.Axes) - 1; i >= 0; i-- {
		n := len(m.Axes[i].Values)
		at[i], number = number%n, number/n
	}
}

// valuesAt are those of a crossing, with what Include adds to it.
func (m *Matrix) valuesAt(number int, included []entryPattern) map[string]string {
	at := make([]int, len(m.Axes))
	m.splitIndex(number, at)
	all := make(map[string]string, len(at))
	for i, a := range m.Axes {
		all[a.Name] = a.Values[at[i]]
	}
	for i, p := range included {
		if p.matchesAt(at) {
			maps.Copy(all, m.Include[i])
		}
	}
	return all
}

// entryPattern is what an entry says of the axes: the place of a value of each,
// anyValue, or noValue.
type entryPattern []int

const (
	anyValue = -1
	noValue  = -2
)

func (m *Matrix) entryPatterns(entries []map[string]string) []entryPattern {
	all := make([]entryPattern, len(entries))
	for i, entry := range entries {
		all[i] = make(entryPattern, len(m.Axes))
		for k, a := range m.Axes {
			all[i][k] = anyValue
			if v, ok := entry[a.Name]; ok {
				if all[i][k] = slices.Index(a.Values, v); all[i][k] < 0 {
					all[i][k] = noValue
				}
			}
		}
	}
	return all
}

func (p entryPattern) matchesAt(at []int) bool {
	for i, want := range p {
		if want != anyValue && want != at[i] {
			return false
		}
	}
	return true
}
