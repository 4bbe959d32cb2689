package sched

import (
	"slices"
	"time"
)

// offerDemand is what the master was last told about our wish for offers to one
// role.
type offerDemand struct {
	waiting int // tasks in state WAITING
	// reviveWanted: work has come since the last REVIVE, which also takes back
	// what was refused for a long time.
	reviveWanted bool
	suppressed   bool
	revivedAt    time.Time
}

func (s *State) offerDemandFor(role string) *offerDemand {
	d := s.offerDemands[role]
	if d == nil {
		d = &offerDemand{}
		s.offerDemands[role] = d
	}
	return d
}

// reviveOrSuppress asks for offers to the roles for which work has come, and for
// silence where none waits.
func (s *State) reviveOrSuppress(now time.Time) []Operation {
	if !s.connected {
		return nil
	}
	var revive, suppress []string
	for _, role := range s.roleNames() { // Mesos drops a call that names another
		d := s.offerDemandFor(role)
		since := now.Sub(d.revivedAt)
		switch {
		case d.waiting == 0:
			if d.reviveWanted = false; !d.suppressed {
				suppress = append(suppress, role)
				d.suppressed = true
			}
		case !d.reviveWanted && !d.suppressed:
		case since >= 0 && since < s.cfg.ReviveEvery: // a tick will come
		default:
			revive = append(revive, role)
			d.reviveWanted, d.suppressed, d.revivedAt = false, false, now
		}
	}
	var ops []Operation
	if len(suppress) > 0 {
		ops = append(ops, SuppressOffers{Roles: namedRoles(suppress)})
	}
	if len(revive) > 0 {
		ops = append(ops, ReviveOffers{Roles: namedRoles(revive)})
	}
	return ops
}

// namedRoles drops the role without a name, which stands for all there are.
func namedRoles(roles []string) []string {
	if slices.Contains(roles, "") {
		return nil
	}
	return roles
}
