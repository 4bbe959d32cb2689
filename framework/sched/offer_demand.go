package sched

import (
	"slices"
	"time"
)

// offerDemand is the demand for offers to one role, and what was last sent to the master about it.
type offerDemand struct {
	waiting int // tasks of the role in state WAITING
	// reviveWanted: tasks were queued since the last REVIVE, which also removes filters of long refusals.
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

// reviveOrSuppress revives offers to roles with new demand, and suppresses them for roles in which nothing waits.
func (s *State) reviveOrSuppress(now time.Time) []Operation {
	if !s.connected {
		return nil
	}
	var revive, suppress []string
	for _, role := range s.roleNames() { // Mesos rejects a call with any other role
		d := s.offerDemandFor(role)
		since := now.Sub(d.revivedAt)
		switch {
		case d.waiting == 0:
			if d.reviveWanted = false; !d.suppressed {
				suppress = append(suppress, role)
				d.suppressed = true
			}
		case !d.reviveWanted && !d.suppressed:
		case since >= 0 && since < s.cfg.ReviveEvery: // a later Tick revives
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

// namedRoles returns nil, which means all roles, if the roles include the one without a name.
func namedRoles(roles []string) []string {
	if slices.Contains(roles, "") {
		return nil
	}
	return roles
}
