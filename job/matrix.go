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
	Axes []Axis `json:"axes,omitempty"`
	// Exclude leaves out the combinations that have all values of one entry.
	Exclude []map[string]string `json:"exclude,omitempty"`
	// Include adds the values of an entry to the combinations that it agrees
	// with on every axis; one that agrees with none is one more combination.
	Include []map[string]string `json:"include,omitempty"`
}

// Axis is a name and the values that it takes.
type Axis struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// Combinations counts them and finds the values of a task's by its index: first
// those of the axes, then what Include adds. None is made before it is asked
// for; there is none beyond the last.
func (m *Matrix) Combinations() (count int, of func(index int) map[string]string) {
	excluded, included := m.patterns(m.Exclude), m.patterns(m.Include)
	var crossed []int // numbers that Exclude leaves
	met := make([]bool, len(included))
	at := make([]int, len(m.Axes))
	for number := range m.crossings() {
		m.split(number, at)
		if slices.ContainsFunc(excluded, func(p pattern) bool { return p.meets(at) }) {
			continue
		}
		crossed = append(crossed, number)
		for i, p := range included {
			met[i] = met[i] || p.meets(at)
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
			return m.values(crossed[index], included)
		case index < len(crossed)+len(lone):
			return maps.Clone(lone[index-len(crossed)])
		}
		return nil
	}
}

// crossings is how many there are of the axes' values.
func (m *Matrix) crossings() int {
	if len(m.Axes) == 0 {
		return 0
	}
	return m.size()
}

// split finds the value of each axis, by its place, in a crossing.
func (m *Matrix) split(number int, at []int) {
	for i := len(m.Axes) - 1; i >= 0; i-- {
		n := len(m.Axes[i].Values)
		at[i], number = number%n, number/n
	}
}

// values are those of a crossing, with what Include adds to it.
func (m *Matrix) values(number int, included []pattern) map[string]string {
	at := make([]int, len(m.Axes))
	m.split(number, at)
	all := make(map[string]string, len(at))
	for i, a := range m.Axes {
		all[a.Name] = a.Values[at[i]]
	}
	for i, p := range included {
		if p.meets(at) {
			maps.Copy(all, m.Include[i])
		}
	}
	return all
}

// pattern is what an entry says of the axes: the place of a value of each,
// anyValue, or noValue.
type pattern []int

const (
	anyValue = -1
	noValue  = -2
)

func (m *Matrix) patterns(entries []map[string]string) []pattern {
	all := make([]pattern, len(entries))
	for i, entry := range entries {
		all[i] = make(pattern, len(m.Axes))
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

func (p pattern) meets(at []int) bool {
	for i, want := range p {
		if want != anyValue && want != at[i] {
			return false
		}
	}
	return true
}
