package sched

import (
	"strings"

	"mesos-gpu/job"
)

// EndCause is why an attempt has ended, of few words: one of these, a KillReason,
// or Mesos's reason in small letters and without its REASON_.
type EndCause string

const (
	// CauseExitCode: its process has ended with an exit code.
	CauseExitCode EndCause = "exit"
	// CauseKilled: a person has killed it.
	CauseKilled EndCause = "killed"
	// CauseDrained: its agent is drained.
	CauseDrained EndCause = EndCause(job.KillByDrain)
	// CauseImageMismatch: its image cannot run on its agent.
	CauseImageMismatch EndCause = "unfit"
	// CauseMaxWait: it has waited for as long as its job may.
	CauseMaxWait EndCause = "max_wait"
	// CauseAgentAway: its agent was away for too long.
	CauseAgentAway EndCause = "agent_away"
	// CauseUnknown: nobody has told.
	CauseUnknown EndCause = "unknown"
)

// mesosReasonPrefix is what Mesos's reasons begin with.
const mesosReasonPrefix = "REASON_"

// endCause says why the attempt old ended so. What was asked of it comes before
// what it was seen to end by.
func (o *attemptResult) endCause(old *job.Task) EndCause {
	switch {
	case o.state == job.Finished:
		return ""
	case !old.KillRequested.IsZero() && old.KillReason == job.KillByUser:
		return CauseKilled
	case !old.KillRequested.IsZero():
		return EndCause(old.KillReason)
	case o.drained:
		return CauseDrained
	case o.mismatch != "":
		return CauseImageMismatch
	case old.State == job.Waiting:
		return CauseMaxWait
	case strings.HasPrefix(o.reason, mesosReasonPrefix):
		return EndCause(strings.ToLower(strings.TrimPrefix(o.reason, mesosReasonPrefix)))
	case o.exitCode != nil:
		return CauseExitCode
	case old.State == job.Unreachable:
		return CauseAgentAway
	}
	return CauseUnknown
}
