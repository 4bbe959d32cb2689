package readmodel

import (
	"cmp"
	"slices"
)

// addToGroup and removeFromGroup keep byGroup up to date.
func (m *Model) addToGroup(e *jobEntry) {
	if group := e.Spec.Group; group != "" {
		at, _ := slices.BinarySearchFunc(m.byGroup[group], e, compareName)
		m.byGroup[group] = slices.Insert(m.byGroup[group], at, e)
	}
}

func (m *Model) removeFromGroup(e *jobEntry) {
	group := e.Spec.Group
	if group == "" {
		return
	}
	m.byGroup[group] = slices.DeleteFunc(m.byGroup[group], func(one *jobEntry) bool { return one == e })
	if len(m.byGroup[group]) == 0 {
		delete(m.byGroup, group)
	}
}

func compareName(a, b *jobEntry) int { return cmp.Compare(a.Spec.Name, b.Spec.Name) }
