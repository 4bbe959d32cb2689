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

// Combinations are the values of each task, by its index: first those of the
// axes, then what Include adds.
func (m *Matrix) Combinations() []map[string]string {
	all := m.product()
	crossed := len(all)
	for _, more := range m.Include {
		agreed := false
		for _, c := range all[:crossed] {
			if m.agrees(c, more) {
				maps.Copy(c, more)
				agreed = true
			}
		}
		if !agreed {
			all = append(all, maps.Clone(more))
		}
	}
	return all
}

// product is every combination of the axes' values that Exclude leaves.
func (m *Matrix) product() []map[string]string {
	if len(m.Axes) == 0 {
		return nil
	}
	all := []map[string]string{{}}
	for _, a := range m.Axes {
		next := make([]map[string]string, 0, len(all)*len(a.Values))
		for _, c := range all {
			for _, v := range a.Values {
				one := maps.Clone(c)
				one[a.Name] = v
				next = append(next, one)
			}
		}
		all = next
	}
	return slices.DeleteFunc(all, func(c map[string]string) bool {
		return slices.ContainsFunc(m.Exclude, func(e map[string]string) bool { return m.agrees(c, e) })
	})
}

// agrees reports whether an entry says nothing else of any axis.
func (m *Matrix) agrees(combination, entry map[string]string) bool {
	for _, a := range m.Axes {
		if v, ok := entry[a.Name]; ok && combination[a.Name] != v {
			return false
		}
	}
	return true
}
