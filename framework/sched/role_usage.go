package sched

import "cmp"

// RoleUsage is a role as it is now. What it leaves to defaults is written out.
type RoleUsage struct {
	Role
	// QuotaOverridden: its Quota is one that an operator has set.
	QuotaOverridden bool
	// Held is what its tasks hold, in thousandths of GPUs by type, with those
	// of the roles below it, which its quota bounds too; AllTypes is the sum.
	Held map[string]int
	// Waiting are its tasks that wait for a place.
	Waiting int
}

// RoleUsages are all roles, the default first.
func (s *State) RoleUsages() []RoleUsage {
	l := newQuotaTracker(s.cfg.Policy.Roles, s.newPlacementQueue(s.now).Running)
	list := make([]RoleUsage, len(s.cfg.Policy.Roles))
	for i, r := range s.cfg.Policy.Roles {
		_, set := s.operatorQuotas[r.Name]
		r.Weight, r.Order, r.FitPolicy = cmp.Or(r.Weight, 1), cmp.Or(r.Order, OldestFirst), cmp.Or(r.FitPolicy, s.cfg.Policy.Fit.Name)
		list[i] = RoleUsage{Role: r, QuotaOverridden: set, Held: l.usageByType(r.Name), Waiting: s.offerDemandFor(r.Name).waiting}
	}
	return list
}

// usageByType is what a role and those below it hold, by type. GPUs of no known
// type are in the sum alone.
func (l *quotaTracker) usageByType(role string) map[string]int {
	held := map[string]int{}
	for name, types := range l.held {
		if !isWithinRole(name, role) {
			continue
		}
		for kind, milli := range types {
			held[AllTypes] += milli
			if kind != "" {
				held[kind] += milli
			}
		}
	}
	return held
}
