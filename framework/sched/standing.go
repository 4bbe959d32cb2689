package sched

import "cmp"

// Standing is a role as it is now. What it leaves to defaults is written out.
type Standing struct {
	Role
	// Set: its Quota is one that an operator has set.
	Set bool
	// Held is what its tasks hold, in thousandths of GPUs by type, with those
	// of the roles below it, which its quota bounds too; AllTypes is the sum.
	Held map[string]int
	// Waiting are its tasks that wait for a place.
	Waiting int
}

// Standings are all roles, the default first.
func (s *State) Standings() []Standing {
	l := newLedger(s.cfg.Policy.Roles, s.readyQueue(s.now).Running)
	list := make([]Standing, len(s.cfg.Policy.Roles))
	for i, r := range s.cfg.Policy.Roles {
		_, set := s.quotas[r.Name]
		r.Weight, r.Order, r.Policy = cmp.Or(r.Weight, 1), cmp.Or(r.Order, OldestFirst), cmp.Or(r.Policy, s.cfg.Policy.Fit.Name)
		list[i] = Standing{Role: r, Set: set, Held: l.heldWithin(r.Name), Waiting: s.demandOf(r.Name).waiting}
	}
	return list
}

// heldWithin is what a role and those below it hold, by type. GPUs of no known
// type are in the sum alone.
func (l *ledger) heldWithin(role string) map[string]int {
	held := map[string]int{}
	for name, types := range l.held {
		if !within(name, role) {
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
