package readmodel

import (
	"cmp"
	"slices"
)

// addToGroup and removeFromGroup keep byGroup up to date.
func (v *Model) addToGroup(e *jobEntry) {
	if group := e.Spec.Group; group != "" {
		at, _ := slices.BinarySearchFunc(v.byGroup[group], e, compareName)
		v.byGroup[group] = slices.Insert(v.byGroup[group], at, e)
	}
}

func (v *Model) removeFromGroup(e *jobEntry) {
	group := e.Spec.Group
	if group == "" {
		return
	}
	v.byGroup[group] = slices.DeleteFunc(v.byGroup[group], func(one *jobEntry) bool { return one == e })
	if len(v.byGroup[group]) == 0 {
		delete(v.byGroup, group)
	}
}

func compareName(a, b *jobEntry) int { return cmp.Compare(a.Spec.Name, b.Spec.Name) }
