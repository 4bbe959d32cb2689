package sched

import (
	"slices"
	"time"
)

// offerDemands is the demand for offers by role. A role that is removed from the policy keeps its entry as long as tasks
// of it wait.
type offerDemands map[string]*offerDemand

// offerDemand is the demand for offers to one role, and what was last sent to the master about it.
type offerDemand struct {
	// waiting is the number of tasks of the role in state WAITING.
	waiting int
	// reviveWanted reports that tasks were queued since the last REVIVE, which also removes filters of long refusals.
	reviveWanted bool
	// suppressed reports that the last call for the role was SUPPRESS.
	suppressed bool
	// revivedAt is the time of the last REVIVE of the subscription.
	revivedAt time.Time
}

// entry returns the demand of a role, and adds an entry if it has no entry.
func (o offerDemands) entry(role string) *offerDemand {
	d := o[role]
	if d == nil {
		d = &offerDemand{}
		o[role] = d
	}
	return d
}

// reviveOrSuppress revives offers to roles with new demand, and suppresses them for roles in which nothing waits. It
// leaves at least the given time between two REVIVEs of a role.
func (o offerDemands) reviveOrSuppress(now time.Time, roles []string, reviveEvery time.Duration) (ops []Operation) {
	var revive, suppress []string
	for _, role := range roles { // Mesos rejects a call with any other role
		d := o.entry(role)
		since := now.Sub(d.revivedAt)
		switch {
		case d.waiting == 0:
			if d.reviveWanted = false; !d.suppressed {
				suppress = append(suppress, role)
				d.suppressed = true
			}
		case !d.reviveWanted && !d.suppressed:
		case since >= 0 && since < reviveEvery: // a later Tick revives
		default:
			revive = append(revive, role)
			d.reviveWanted, d.suppressed, d.revivedAt = false, false, now
		}
	}
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
