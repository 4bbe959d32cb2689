package readmodel

import (
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
)

// RoleViews returns all roles with their settings and usage.
func RoleViews(st *sched.State) []api.RoleStatus {
	var list []api.RoleStatus
	for _, s := range st.RoleUsages() {
		r := api.RoleStatus{
			Name: s.Name, Weight: s.Weight, Order: string(s.Order), Policy: s.FitPolicy, Backfill: !s.Strict,
			Quota: map[string]int{}, QuotaSet: s.QuotaOverridden, Allocated: map[string]float64{}, Waiting: s.Waiting,
		}
		for kind, n := range s.Quota {
			r.Quota[kind] = n
		}
		for kind, milli := range s.Held {
			r.Allocated[kind] = float64(milli) / 1000
		}
		list = append(list, r)
	}
	return list
}

// RoleView returns one role, zero if it does not exist.
func RoleView(st *sched.State, name string) api.RoleStatus {
	for _, r := range RoleViews(st) {
		if r.Name == name {
			return r
		}
	}
	return api.RoleStatus{}
}
