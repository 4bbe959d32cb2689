package sched

import (
	"strings"

	"mesos-gpu/job"
)

// attemptResult is how an attempt of a task ended.
type attemptResult struct {
	// state is the state to which the attempt changes.
	state job.State
	// message is for users. reason is the reason that Mesos reports, "" if the scheduler itself ends the attempt.
	message, reason string
	// exitCode is nil if the process did not exit, or the task is lost.
	exitCode *int
	// drained reports that the agent is being drained; the attempt did not fail.
	drained bool
	// mismatch is set if the image cannot run on the agent.
	mismatch ImageMismatch
	// machineFault is why the machine could not start the attempt, "" if it could.
	machineFault string
}

// EndCause is why an attempt ended: one of these constants, a job.KillReason, or a Mesos reason in lower case without
// its prefix REASON_. It is a metric label.
type EndCause string

const (
	// CauseExitCode: the process exited with a code.
	CauseExitCode EndCause = "exit"
	// CauseKilled: a user killed it.
	CauseKilled EndCause = "killed"
	// CauseDrained: its agent is being drained.
	CauseDrained EndCause = EndCause(job.KillByDrain)
	// CauseImageMismatch: its image cannot run on its agent.
	CauseImageMismatch EndCause = "unfit"
	// CauseMachineFault: its machine could not start it, for example because another container held its GPU.
	CauseMachineFault EndCause = "machine_fault"
	// CauseMaxWait: it waited longer than its job's max_wait.
	CauseMaxWait EndCause = "max_wait"
	// CauseAgentAway: its agent was unreachable for too long.
	CauseAgentAway EndCause = "agent_away"
	// CauseUnknown: no reason was reported.
	CauseUnknown EndCause = "unknown"
)

// mesosReasonPrefix is the prefix of Mesos's reasons.
const mesosReasonPrefix = "REASON_"

// endCause returns the cause of an attempt's end. old is the task before it. A requested end takes precedence over what
// the update reports.
func (r *attemptResult) endCause(old *job.Task) EndCause {
	switch {
	case r.state == job.Finished:
		return ""
	case !old.KillRequested.IsZero() && old.KillReason == job.KillByUser:
		return CauseKilled
	case !old.KillRequested.IsZero():
		return EndCause(old.KillReason)
	case r.drained:
		return CauseDrained
	case r.machineFault != "":
		return CauseMachineFault
	case r.mismatch != "":
		return CauseImageMismatch
	case old.State == job.Waiting:
		return CauseMaxWait
	case strings.HasPrefix(r.reason, mesosReasonPrefix):
		return EndCause(strings.ToLower(strings.TrimPrefix(r.reason, mesosReasonPrefix)))
	case r.exitCode != nil:
		return CauseExitCode
	case old.State == job.Unreachable:
		return CauseAgentAway
	}
	return CauseUnknown
}

// EndCauseOf returns the cause of an ended attempt from its record, "" if it finished. The record of an attempt whose
// image fits no agent has only the reason of Mesos.
func EndCauseOf(t *job.Task) EndCause {
	o := attemptResult{state: t.State, reason: t.Reason, exitCode: t.ExitCode}
	old := job.Task{State: job.Running, KillRequested: t.KillRequested, KillReason: t.KillReason}
	switch {
	case t.Launched.IsZero():
		old.State = job.Waiting
	case t.State == job.Lost && !t.Started.IsZero():
		old.State = job.Unreachable
	}
	return o.endCause(&old)
}
