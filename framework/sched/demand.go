package sched

import (
	"slices"
	"time"
)

// demand is what the master was last told about our wish for offers to one
// role.
type demand struct {
	waiting int // tasks in state WAITING
	// wanted: work has come since the last REVIVE, which also takes back
	// what was refused for a long time.
	wanted     bool
	suppressed bool
	revived    time.Time
}

func (s *State) demandOf(role string) *demand {
	d := s.demands[role]
	if d == nil {
		d = &demand{}
		s.demands[role] = d
	}
	return d
}

// balance asks for offers to the roles for which work has come, and for
// silence where none waits.
func (s *State) balance(now time.Time) []Op {
	if !s.connected {
		return nil
	}
	var revive, suppress []string
	for _, role := range s.roleNames() { // Mesos drops a call that names another
		d := s.demandOf(role)
		since := now.Sub(d.revived)
		switch {
		case d.waiting == 0:
			if d.wanted = false; !d.suppressed {
				suppress = append(suppress, role)
				d.suppressed = true
			}
		case !d.wanted && !d.suppressed:
		case since >= 0 && since < s.cfg.ReviveEvery: // a tick will come
		default:
			revive = append(revive, role)
			d.wanted, d.suppressed, d.revived = false, false, now
		}
	}
	var ops []Op
	if len(suppress) > 0 {
		ops = append(ops, Suppress{Roles: named(suppress)})
	}
	if len(revive) > 0 {
		ops = append(ops, Revive{Roles: named(revive)})
	}
	return ops
}

// named drops the role without a name, which stands for all there are.
func named(roles []string) []string {
	if slices.Contains(roles, "") {
		return nil
	}
	return roles
}
