package readmodel

import (
	"maps"
	"math"
	"slices"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/quota"
)

const bytesPerMiB = 1 << 20

// RoleViews returns all roles with their settings and usage. It reads the State, so it runs in the loop.
func RoleViews(st *sched.State) []api.RoleStatus {
	var list []api.RoleStatus
	for _, s := range st.RoleUsages() {
		r := api.RoleStatus{
			Name: s.Name, Weight: s.Weight, Order: string(s.Order), Policy: s.FitPolicy, Backfill: !s.Strict,
			Quota: map[string]int{}, QuotaSet: s.QuotaOverridden, Waiting: s.Waiting,
			Deserved: map[string]int{}, Demanded: wholeGPUs(s.Demanded),
		}
		if s.Entitled != nil {
			r.Entitled = wholeGPUs(s.Entitled)
		}
		for resource, u := range s.Host {
			if r.Host == nil {
				r.Host = map[string]api.HostUse{}
			}
			use := api.HostUse{Demanded: u.Demanded, Held: u.Held}
			if n, ok := s.DeservedHost[resource]; ok {
				use.Deserved = &n
			}
			r.Host[resource] = use
		}
		if h, held := st.Holds().OfRole(s.Name); held {
			r.Hold = &h
		}
		if q := s.MesosQuota; q != nil {
			r.MesosQuota = &api.MesosQuota{Limit: q.Limit, Guarantee: q.Guarantee, Used: q.Used}
		}
		maps.Copy(r.Quota, s.Quota)
		maps.Copy(r.Deserved, s.Deserved)
		r.Allocated = wholeGPUs(s.Held)
		for _, u := range s.Users {
			r.Users = append(r.Users, api.UserUsage{User: u.Name, Recent: math.Round(u.Average) / quota.MilliPerGPU, Allocated: float64(u.Held) / quota.MilliPerGPU})
		}
		r.HalfLifeSeconds, r.Recent = s.HalfLife.Seconds(), math.Round(s.Recent)/quota.MilliPerGPU
		r.WaitingJobs, r.WaitingJobsLimit, r.UserLimits = s.JobsWithoutTasks, s.WaitingJobs, userLimitsView(&s)
		for _, e := range s.Budgets {
			r.Budgets = append(r.Budgets, api.BudgetUse{
				User:    e.User,
				Type:    e.Type,
				Used:    e.Used,
				Budget:  e.Amount,
				Priced:  e.IsPriced,
				AtLimit: string(e.AtLimit),

				HeldTasks: e.HeldTasks,
			})
		}
		list = append(list, r)
	}
	return list
}

// userLimitsView returns the limits of a role's users, nil if it has none.
func userLimitsView(s *sched.RoleUsage) *api.RoleUserLimits {
	if s.EachUser.IsZero() && len(s.NamedUsers) == 0 {
		return nil
	}
	v := &api.RoleUserLimits{Each: limitsView(&s.EachUser), Users: []api.LimitedUser{}}
	for i := range s.LimitedUsers {
		u := &s.LimitedUsers[i]
		v.Users = append(v.Users, api.LimitedUser{
			User:        u.Name,
			Limits:      limitsView(&u.Limits),
			Allocated:   wholeGPUs(u.Held),
			RunningJobs: u.Running,
			WaitingJobs: u.Waiting,
		})
	}
	return v
}

func limitsView(l *quota.UserLimits) api.UserLimits {
	return api.UserLimits{GPUs: maps.Clone(l.GPUs), RunningJobs: l.RunningJobs, WaitingJobs: l.WaitingJobs, SubmissionsPerMinute: l.SubmissionsPerMinute}
}

// RoleShares returns the metrics of roles by GPU type, nil if no role deserves GPUs.
func RoleShares(roles []api.RoleStatus) (shares []metrics.RoleShare) {
	if !slices.ContainsFunc(roles, func(r api.RoleStatus) bool { return len(r.Deserved) > 0 || r.Entitled != nil }) {
		return nil
	}
	for i := range roles {
		r := &roles[i]
		types := maps.Clone(r.Demanded)
		for gpuType, n := range r.Deserved {
			types[gpuType] = float64(n)
		}
		for _, gpuType := range slices.Sorted(maps.Keys(types)) {
			shares = append(shares, metrics.RoleShare{
				Role:     r.Name,
				Type:     gpuType,
				Deserved: float64(r.Deserved[gpuType]),
				Demanded: r.Demanded[gpuType],
				Entitled: r.Entitled[gpuType],
			})
		}
	}
	return shares
}

// HostShares returns the metrics of the CPUs and memory that roles deserve, nil if no role deserves any.
func HostShares(roles []api.RoleStatus) (shares []metrics.HostShare) {
	for i := range roles {
		for _, resource := range slices.Sorted(maps.Keys(roles[i].Host)) {
			use, unit, deserved := roles[i].Host[resource], 1.0, 0.0
			if resource == quota.Memory {
				unit = bytesPerMiB
			}
			if use.Deserved != nil {
				deserved = *use.Deserved
			}
			shares = append(shares, metrics.HostShare{
				Role:     roles[i].Name,
				Resource: resource,
				Deserved: deserved * unit,
				Demanded: use.Demanded * unit,
				Held:     use.Held * unit,
			})
		}
	}
	return shares
}

// RecentUsages returns the metrics of roles with a half-life of the fair share.
func RecentUsages(roles []api.RoleStatus) (list []metrics.RecentUsage) {
	for i := range roles {
		if r := &roles[i]; r.HalfLifeSeconds > 0 {
			list = append(list, metrics.RecentUsage{Role: r.Name, GPUs: r.Recent, HalfLifeSeconds: r.HalfLifeSeconds})
		}
	}
	return list
}

// Budgets returns the metrics of the amounts of roles' budgets.
func Budgets(roles []api.RoleStatus) (list []metrics.Budget) {
	for i := range roles {
		for _, b := range roles[i].Budgets {
			list = append(list, metrics.Budget{
				Role:      roles[i].Name,
				User:      b.User,
				Type:      b.Type,
				Used:      b.Used,
				Amount:    b.Budget,
				HeldTasks: b.HeldTasks,
			})
		}
	}
	return list
}

// wholeGPUs converts thousandths of GPUs by type into GPUs.
func wholeGPUs(milli map[string]int) map[string]float64 {
	gpus := make(map[string]float64, len(milli))
	for gpuType, n := range milli {
		gpus[gpuType] = float64(n) / quota.MilliPerGPU
	}
	return gpus
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
