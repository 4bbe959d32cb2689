package readmodel

import (
	"cmp"
	"slices"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
)

// ListHolds returns the holds of users and roles, users first, by name.
func (m *Model) ListHolds() []api.HoldView {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var list []api.HoldView
	for target, h := range sched.ParseHolds(m.ownDocuments) {
		list = append(list, api.HoldView{Kind: target.Kind, Name: target.Name, Hold: h})
	}
	slices.SortFunc(list, func(a, b api.HoldView) int {
		return cmp.Or(-cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return list
}
