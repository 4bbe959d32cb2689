package sched

import (
	"cmp"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
)

// RoleUsage is a role with its settings, defaults filled in, and what it holds.
type RoleUsage struct {
	queue.Role
	// QuotaOverridden reports that an operator has set the quota at run time.
	QuotaOverridden bool
	// Held is what the tasks of the role and of the roles below it hold, in thousandths of GPUs by type; quota.AllTypes
	// is the sum.
	Held map[string]int
	// Waiting is the number of the role's tasks that wait.
	Waiting int
}

// RoleUsages returns all roles, the default one first.
func (s *State) RoleUsages() []RoleUsage {
	usage := quota.NewTracker(nil, nil)
	queue.CountUsage(usage, s.runningTasks())
	list := make([]RoleUsage, len(s.cfg.Policy.Roles))
	for i, r := range s.cfg.Policy.Roles {
		_, overridden := s.operatorQuotas[r.Name]
		r.Weight, r.Order, r.FitPolicy = cmp.Or(r.Weight, 1), cmp.Or(r.Order, queue.OldestFirst), cmp.Or(r.FitPolicy, s.cfg.Policy.Fit.Name)
		list[i] = RoleUsage{Role: r, QuotaOverridden: overridden, Held: usage.UsageByType(r.Name), Waiting: s.offerDemands.entry(r.Name).waiting}
	}
	return list
}
