package sched

import (
	"cmp"
	"maps"
	"slices"

	"mesos-gpu/framework/sched/budget"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
)

// RoleUsage is a role with its settings, defaults filled in, and what it holds. Amounts are thousandths of GPUs by type,
// of the role and the roles below it; quota.AllTypes counts all types.
type RoleUsage struct {
	queue.Role
	// QuotaOverridden reports that an operator has set the quota at run time.
	QuotaOverridden bool
	// MesosQuota is the quota that an operator of Mesos has set for the role, or nil.
	MesosQuota *quota.MesosQuota
	// Held counts the GPUs that tasks hold. A GPU of unknown type counts in quota.AllTypes only.
	Held map[string]int
	// Demanded counts the GPUs that tasks hold or wait for. A task that accepts several types counts for each of them. Entitled is the
	// part of the cluster that the role would have if all demand were divided by what roles deserve and by weight.
	Demanded, Entitled map[string]int
	// Host has what the role and the roles below it hold and demand of the CPUs and memory that roles deserve; nil if none
	// deserves any.
	Host map[string]quota.HostUsage
	// Waiting is the number of the role's tasks that wait.
	Waiting int
	// Recent is the decayed usage of the role's own tasks, in thousandths of GPUs; 0 without a half-life.
	Recent float64
	// Users are the users of the role itself who have used GPUs of late, in the order in which they are served. It is nil
	// unless fair share has a half-life.
	Users []UserUsage
	// LimitedUsers are the users whom the role's limits apply to, sorted by name. JobsWithoutTasks counts the jobs without a
	// placed task of the role and of the roles below it, which Role.WaitingJobs limits.
	LimitedUsers     []LimitedUser
	JobsWithoutTasks int
	// Budgets are the amounts of the role's budget with what is used of them in the month until now.
	Budgets []budget.Entry
}

// LimitedUser is a user with limits by a role, and what the user has in the role and the roles below it.
type LimitedUser struct {
	Name   string
	Limits quota.UserLimits
	// Held are thousandths of GPUs by type; quota.AllTypes counts all. Running are the jobs with placed tasks, Waiting the
	// others that have not ended.
	Held             map[string]int
	Running, Waiting int
}

// limitedUsersOf returns the users with jobs or limits of their own whom a role's limits apply to.
func (s *State) limitedUsersOf(r *queue.Role) (list []LimitedUser) {
	byName := map[string]*LimitedUser{}
	userOf := func(name string) *LimitedUser {
		if byName[name] == nil {
			byName[name] = &LimitedUser{Name: name, Limits: *r.UserLimits(name), Held: map[string]int{}}
		}
		return byName[name]
	}
	for name := range r.NamedUsers {
		userOf(name)
	}
	isLimited := func(role, owner string) bool {
		return owner != "" && quota.IsWithinRole(role, r.Name) && !r.UserLimits(owner).IsZero()
	}
	for k, live := range s.liveJobs.byOwner {
		if isLimited(k.role, k.owner) {
			userOf(k.owner).Waiting += *live
		}
	}
	for ref := range s.placedTasks() {
		spec, t := ref.job.Spec, ref.get()
		if !isLimited(spec.Role, spec.Owner) {
			continue
		}
		u := userOf(spec.Owner)
		for name, n := range t.HeldProducts() {
			u.addHeld(name, n*quota.MilliPerGPU)
		}
		for i := range t.Shares {
			u.addHeld(t.Shares[i].ProductName(), t.Shares[i].MilliDevices)
		}
	}
	for j := range s.placed.jobs.all() {
		if isLimited(j.Spec.Role, j.Spec.Owner) {
			u := userOf(j.Spec.Owner)
			u.Running++
			u.Waiting--
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, *byName[name])
	}
	return list
}

// addHeld adds GPUs of a product to all, to those of its type, and to the limits with a more precise name that count it.
func (u *LimitedUser) addHeld(product string, milli int) {
	u.Held[quota.AllTypes] += milli
	if product != "" {
		u.Held[gpu.TypesOf(product)] += milli
	}
	for name := range u.Limits.GPUs {
		if name != quota.AllTypes && gpu.IsPreciseTypeName(name) && quota.CountsProduct(name, product) {
			u.Held[name] += milli
		}
	}
}

// UserUsage contains the decayed and the present usage of a user of a role, in thousandths of GPUs.
type UserUsage struct {
	Name    string
	Average float64
	Held    int
}

// usersOf returns the users of a role, who is served first at first.
func usersOf(role string, recent *quota.RecentUsage) (users []UserUsage) {
	if recent == nil || recent.WithoutPast[role] {
		return nil
	}
	for u, average := range recent.Average {
		if u.Role == role {
			users = append(users, UserUsage{u.Name, average, recent.Held[u]})
		}
	}
	slices.SortFunc(users, func(a, b UserUsage) int {
		x, y := quota.User{Role: role, Name: a.Name}, quota.User{Role: role, Name: b.Name}
		return cmp.Or(cmp.Compare(recent.Share(x, 0), recent.Share(y, 0)), x.Compare(y))
	})
	return users
}

// Reclaims reports whether roles take GPUs, or CPUs and memory, back from each other.
func (s *State) Reclaims() bool { return s.cfg.Policy.Reclaims() }

// RoleUsages returns all roles, the default one first.
func (s *State) RoleUsages() []RoleUsage {
	in := s.newPlacementInput()
	usage := s.newUsage(in.Running, in.Waiting)
	pursued := s.cfg.Policy.PursuesEntitlements()
	if !pursued { // then newUsage has added it
		queue.AddDemand(usage, in.Waiting)
	}
	list, budgets := make([]RoleUsage, len(s.cfg.Policy.Roles)), s.budgetEntries()
	for i, r := range s.cfg.Policy.Roles {
		_, overridden := s.operatorQuotas[r.Name]
		r.Weight, r.Order, r.FitPolicy = cmp.Or(r.Weight, 1), cmp.Or(r.Order, queue.OldestFirst), cmp.Or(r.FitPolicy, s.cfg.Policy.Fit.Name)
		r.HalfLife = s.halfLifeOf(r.Name)
		list[i] = RoleUsage{
			Role: r, QuotaOverridden: overridden, Held: usage.UsageByType(r.Name), Waiting: s.offerDemands.entry(r.Name).waiting,
			Demanded: map[string]int{}, Users: usersOf(r.Name, in.Recent),
			LimitedUsers: s.limitedUsersOf(&r), JobsWithoutTasks: s.countWaitingJobs(r.Name, ""), Host: usage.HostUsageWithin(r.Name),
		}
		list[i].Budgets = budgets[r.Name]
		s.countHeldTasks(list[i].Budgets, in.Waiting)
		if at := slices.IndexFunc(s.mesosQuotas, func(q quota.MesosQuota) bool { return q.Role == r.Name }); at >= 0 {
			list[i].MesosQuota = &s.mesosQuotas[at]
		}
		if r.HalfLife > 0 {
			list[i].Recent = in.Recent.OfRole(r.Name)
		}
	}
	for _, gpuType := range usage.GPUTypes() {
		var granted map[string]int
		if pursued {
			granted = usage.Entitle(s.roleNames(), gpuType)
		}
		for i := range list {
			r := &list[i]
			if n := usage.DemandWithin(r.Name, gpuType); n > 0 {
				r.Demanded[gpuType] = n
			}
			if pursued && r.Entitled == nil {
				r.Entitled = map[string]int{}
			}
			if n := granted[r.Name]; n > 0 {
				r.Entitled[gpuType] = n
			}
		}
	}
	return list
}
