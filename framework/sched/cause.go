package sched

import (
	"strings"

	"mesos-gpu/job"
)

// Cause is why an attempt has ended, of few words: one of these, a KillReason,
// or Mesos's reason in small letters and without its REASON_.
type Cause string

const (
	// ByExit: its process has ended with an exit code.
	ByExit Cause = "exit"
	// OnDemand: a person has killed it.
	OnDemand Cause = "killed"
	// OnDrain: its agent is drained.
	OnDrain Cause = Cause(job.ByDrain)
	// Misfit: its image cannot run on its agent.
	Misfit Cause = "unfit"
	// TooLate: it has waited for as long as its job may.
	TooLate Cause = "max_wait"
	// Away: its agent was away for too long.
	Away Cause = "agent_away"
	// Unsaid: nobody has told.
	Unsaid Cause = "unknown"
)

// mesosReason is what Mesos's reasons begin with.
const mesosReason = "REASON_"

// cause says why the attempt old ended so. What was asked of it comes before
// what it was seen to end by.
func (o *outcome) cause(old *job.Task) Cause {
	switch {
	case o.state == job.Finished:
		return ""
	case !old.KillWanted.IsZero() && old.KillReason == job.ByPerson:
		return OnDemand
	case !old.KillWanted.IsZero():
		return Cause(old.KillReason)
	case o.drained:
		return OnDrain
	case o.unfit != "":
		return Misfit
	case old.State == job.Waiting:
		return TooLate
	case strings.HasPrefix(o.reason, mesosReason):
		return Cause(strings.ToLower(strings.TrimPrefix(o.reason, mesosReason)))
	case o.exitCode != nil:
		return ByExit
	case old.State == job.Unreachable:
		return Away
	}
	return Unsaid
}
