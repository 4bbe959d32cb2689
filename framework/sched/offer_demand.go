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
	// requestedAt is when the role last began to receive offers: at the REVIVE that ended a suppression, or at the first one
	// of the subscription.
	requestedAt time.Time
	// revivedAt is the time of the last REVIVE of the subscription.
	revivedAt time.Time
	// unanswered reports that no offer has arrived since that REVIVE, and measured that the REVIVE ended a suppression, so
	// that the next offer is its answer.
	unanswered, measured bool
	// answerTime is how long the master took to answer the last measured REVIVE.
	answerTime time.Duration
}

// minReviveInterval and maxReviveInterval bound the pause between two REVIVEs of a role.
const minReviveInterval, maxReviveInterval = 100 * time.Millisecond, time.Second

// revivePause returns the least time between the last REVIVE and the next one. A REVIVE makes the master allocate
// resources of all agents, so the pause is four times as long as the last answer took. It is at most maxReviveInterval, also
// while no answer has arrived.
func (d *offerDemand) revivePause() time.Duration {
	if d.unanswered || d.answerTime == 0 {
		return maxReviveInterval
	}
	return min(max(4*d.answerTime, minReviveInterval), maxReviveInterval)
}

// recordAnswers records the arrival of offers to roles, which answers their last REVIVE.
func (o offerDemands) recordAnswers(now time.Time, offers []Offer) {
	for i := range offers {
		d := o[offers[i].Role]
		if d == nil || !d.unanswered {
			continue
		}
		if d.unanswered = false; d.measured {
			d.answerTime = max(now.Sub(d.revivedAt), 1)
		}
	}
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
// leaves a pause between two REVIVEs of a role, at most maxReviveInterval. due is when the first pause of a role with new
// demand ends, zero if none exists.
func (o offerDemands) reviveOrSuppress(now time.Time, roles []string) (ops []Operation, due time.Time) {
	var revive, suppress []string
	for _, role := range roles { // Mesos rejects a call with any other role
		d := o.entry(role)
		since, pause := now.Sub(d.revivedAt), d.revivePause()
		switch {
		case d.waiting == 0:
			if d.reviveWanted = false; !d.suppressed {
				suppress = append(suppress, role)
				d.suppressed = true
			}
		case !d.reviveWanted && !d.suppressed:
		case since >= 0 && since < pause:
			if end := d.revivedAt.Add(pause); due.IsZero() || end.Before(due) {
				due = end
			}
		default:
			revive = append(revive, role)
			if d.suppressed || d.revivedAt.IsZero() {
				d.requestedAt = now
			}
			d.unanswered, d.measured = true, d.suppressed
			d.reviveWanted, d.suppressed, d.revivedAt = false, false, now
		}
	}
	if len(suppress) > 0 {
		ops = append(ops, SuppressOffers{Roles: namedRoles(suppress)})
	}
	if len(revive) > 0 {
		ops = append(ops, ReviveOffers{Roles: namedRoles(revive)})
	}
	return ops, due
}

// namedRoles returns nil, which means all roles, if the roles include the one without a name.
func namedRoles(roles []string) []string {
	if slices.Contains(roles, "") {
		return nil
	}
	return roles
}
