package job

import (
	"maps"
	"slices"
)

// Matrix gives a job one task for each combination of its axes' values. Its rules are
// those of GitHub's matrices
// (https://docs.github.com/en/actions/how-tos/write-workflows/choose-what-workflows-do/run-job-variations).
type Matrix struct {
	// Axes are varied in this order, the last one fastest.
	Axes []MatrixAxis `json:"axes,omitempty"`
	// Exclude removes the combinations that have all values of an entry.
	Exclude []map[string]string `json:"exclude,omitempty"`
	// Include adds the values of an entry to the combinations that agree with it
	// on every axis. An entry that agrees with none is a combination of its own.
	Include []map[string]string `json:"include,omitempty"`
}

// MatrixAxis is a variable and its values.
type MatrixAxis struct {
	// Name is the variable that gets one of Values in each task.
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// Combinations returns the number of combinations, and a function that computes the
// values of the task with an index: first the combinations of the axes, then those
// that Include adds. The function returns nil for an index beyond the last.
func (m *Matrix) Combinations() (count int, of func(index int) map[string]string) {
	excluded, included := m.entryPatterns(m.Exclude), m.entryPatterns(m.Include)
	var crossed []int // numbers of the combinations that Exclude leaves
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

// crossingCount returns the number of combinations of the axes' values.
func (m *Matrix) crossingCount() int {
	if len(m.Axes) == 0 {
		return 0
	}
	return m.axesProduct()
}

// splitIndex computes the index of each axis's value from the number of a combination.
func (m *Matrix) splitIndex(number int, at []int) {
	for i := len(m.Axes) - 1; i >= 0; i-- {
		n := len(m.Axes[i].Values)
		at[i], number = number%n, number/n
	}
}

// valuesAt returns the values of a combination, including those that Include adds.
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

// entryPattern is an entry as indexes of the axes' values: anyValue for an axis that
// the entry does not name, noValue for a value that the axis does not have.
type entryPattern []int

const (
	anyValue = -1
	noValue  = -2
)

// entryPatterns returns the patterns of entries of Exclude or Include, so that matching a combination compares numbers.
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

// matchesAt reports whether a combination, as indexes of the axes' values, agrees with the entry.
func (p entryPattern) matchesAt(at []int) bool {
	for i, want := range p {
		if want != anyValue && want != at[i] {
			return false
		}
	}
	return true
}

// textBytes returns the length of all names and values, with a little more for each.
func (m *Matrix) textBytes() int {
	n := 0
	for i := range m.Axes {
		n += len(m.Axes[i].Name)
		for _, value := range m.Axes[i].Values {
			n += len(value) + 16
		}
	}
	for _, entries := range [...][]map[string]string{m.Exclude, m.Include} {
		for _, entry := range entries {
			for name, value := range entry {
				n += len(name) + len(value) + 32
			}
		}
	}
	return n
}
