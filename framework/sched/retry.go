package sched

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"mesos-gpu/internal/backoff"
	"mesos-gpu/job"
)

// endAttempt records the end of an attempt and decides whether the task is tried again, as a new attempt with a new id.
// Updates of an attempt that was replaced are treated as those of a stray task. Tasks of a gang are restarted or ended
// together.
func (s *State) endAttempt(ref taskRef, o attemptResult) []Operation {
	old := *ref.get()
	ran := old.State != job.Launching && old.State != job.Waiting
	if !s.transition(ref, o.state, o.message) {
		return nil // late: a later state is known already
	}
	t := s.changeTask(ref)
	t.Reason, t.ExitCode = o.reason, o.exitCode
	end := s.changes.lastTransition()
	end.ExitCode, end.Cause = o.exitCode, o.endCause(&old) // recorded here, since the task may be another attempt below
	if old.State != job.Waiting {
		s.recordFreedPlace(ref)
	}
	if old.State == job.Launching && o.state == job.Lost {
		s.countLostLaunch(&old)
	}
	if ref.job.Spec.MaxParallel > 0 {
		s.offerDemands.entry(ref.job.Spec.Role).reviveWanted = true // another task may be placed now
	}
	next, again := s.retryDecision(ref, &old, o, ran)
	s.notifyAttemptEnd(ref, &old, o, again)
	switch {
	case again:
		delete(s.tasks, old.ID)
		s.enqueueAttempt(ref, next)
	case next.Message != "":
		t.Message = next.Message
	}
	if ref.job.Spec.Gang && old.State != job.Waiting && old.KillReason != job.KillByGangRestart &&
		old.KillReason != job.KillByPeer && (again || o.state != job.Finished) {
		return s.endGang(ref, &old, again)
	}
	return nil
}

// retryDecision returns the next attempt of a task and whether there is one. Without one, a Message in next replaces that
// of the task.
func (s *State) retryDecision(ref taskRef, old *job.Task, o attemptResult, ran bool) (next job.Task, retry bool) {
	spec, attempt := ref.job.Spec, max(old.Attempt, 1)
	next = nextAttempt(old)
	next.Ran = old.Ran || ran
	wanted := !old.KillRequested.IsZero()
	switch {
	case old.State == job.Waiting, wanted && !old.KillReason.RequeuesTask():
		return job.Task{}, false
	case spec.Service != nil:
		return s.restartServiceTask(ref, next, old, o)
	case wanted && old.KillReason == job.KillByGangRestart:
		next.Message = fmt.Sprintf("attempt %d ended with its gang", attempt)
	case wanted && o.state != job.Finished:
		next.Message = fmt.Sprintf("attempt %d was stopped: %s", attempt, old.Message)
	case o.machineFault != "":
		return s.retryAfterMachineFault(next, old, o), true
	case o.drained && o.state != job.Finished:
		next.Message = fmt.Sprintf("attempt %d was stopped: its agent is drained", attempt)
	case o.state == job.Failed && o.mismatch != "":
		return s.retryElsewhere(next, old, o)
	case o.state == job.Failed && countFailures(ref)+1 <= spec.Retries:
		next.Failures++
		next.NotBefore = s.now.Add(backoff.Delay(s.cfg.RetryDelay, s.cfg.RetryDelayMax, next.Failures-1))
		next.Message = fmt.Sprintf("attempt %d failed: %s; retry %d of %d", attempt,
			cmp.Or(o.message, o.reason, "no reason given"), countFailures(ref)+1, spec.Retries)
	case o.state == job.Lost:
		return s.retryLost(next, attempt, o, ran)
	default:
		return job.Task{}, false
	}
	return next, true
}

// nextAttempt returns the attempt after one of a task, with what it inherits.
func nextAttempt(t *job.Task) job.Task {
	return job.Task{Attempt: max(t.Attempt, 1) + 1, Failures: t.Failures, Losses: t.Losses, Ran: t.Ran, ImageExclusions: t.ImageExclusions}
}

// minStableRun is how long a service's task must have run at least before its earlier failures are forgotten. It is
// Marathon's minimum for a viable task.
const minStableRun = time.Minute

// restartServiceTask returns the next attempt of a service's task, after a pause if the attempt failed.
func (s *State) restartServiceTask(ref taskRef, next job.Task, old *job.Task, o attemptResult) (job.Task, bool) {
	attempt := next.Attempt - 1
	b := ref.job.Spec.Service.Backoff
	if !old.Started.IsZero() && s.now.Sub(old.Started) > max(minStableRun, b.PauseAfter(old.Failures)) {
		next.Failures = 0
	}
	switch {
	case !old.KillRequested.IsZero():
		next.Message = fmt.Sprintf("attempt %d was stopped: %s", attempt, cmp.Or(old.Message, o.message, o.reason))
		return next, true
	case o.drained:
		next.Message = fmt.Sprintf("attempt %d was stopped: its agent is drained", attempt)
		return next, true
	case o.machineFault != "":
		return s.retryAfterMachineFault(next, old, o), true
	case o.mismatch != "":
		if again, ok := s.retryElsewhere(next, old, o); ok {
			return again, true
		}
	}
	next.Failures++
	next.NotBefore = s.now.Add(b.PauseAfter(next.Failures))
	next.Message = fmt.Sprintf("attempt %d has %s and is started again", attempt, o.state)
	if said := cmp.Or(o.message, o.reason); said != "" {
		next.Message += ": " + said
	}
	return next, true
}

// longestPause returns the longest pause before an attempt of a job's task.
func (s *State) longestPause(spec *job.Spec) time.Duration {
	if spec.Service != nil {
		return spec.Service.Backoff.Max
	}
	return max(s.cfg.RetryDelay, s.cfg.RetryDelayMax)
}

// retryElsewhere returns an attempt for a task whose image cannot run on its agent. That is neither a failure nor a start
// of the task. A constraint keeps the task off the driver version, which changes with an update and is common to many
// agents, or off the agent itself. There is no attempt if neither is known, or if no agent can run the image.
func (s *State) retryElsewhere(next job.Task, old *job.Task, o attemptResult) (job.Task, bool) {
	if o.mismatch == MismatchAnyAgent {
		return job.Task{}, false
	}
	c := job.Constraint{Field: "@hostname", Operator: job.Unlike, Value: old.Hostname}
	if driver := s.driverOf(old.AgentID); o.mismatch == MismatchDriver && driver != "" {
		c.Field, c.Value = "@driver", driver
	}
	attempt := next.Attempt - 1
	if c.Value == "" || attempt >= maxUnstartedAttempts {
		return job.Task{}, false
	}
	c.Value = regexp.QuoteMeta(c.Value)
	next.Ran = old.Ran
	next.ImageExclusions = append(slices.Clip(old.ImageExclusions), c)
	next.Message = fmt.Sprintf("attempt %d could not start on %s: %s", attempt, cmp.Or(old.Hostname, old.AgentID), cmp.Or(o.message, o.reason, "no reason given"))
	return next, true
}

// retryAfterMachineFault returns the attempt after one that its machine could not start, which is neither a failure nor a
// start of the task. The devices are held back for a while if another container holds one of them, and the whole agent if it
// lacks what its tasks need.
func (s *State) retryAfterMachineFault(next job.Task, old *job.Task, o attemptResult) job.Task {
	if why := agentFaults[o.machineFault]; why != "" {
		s.pauseFaultyAgent(old, why)
	} else {
		s.recordReportedHolder(old, o.message)
	}
	attempt := next.Attempt - 1
	next.Ran = old.Ran
	next.NotBefore = s.now.Add(backoff.Delay(s.cfg.RetryDelay, s.cfg.RetryDelayMax, attempt-1))
	next.Message = fmt.Sprintf("attempt %d could not start on %s: %s", attempt, cmp.Or(old.Hostname, old.AgentID), cmp.Or(o.message, o.machineFault))
	return next
}

// agentFaults has, by the value of job.MachineFaultLabel, why an agent gets no launches for a while.
var agentFaults = map[string]string{
	job.NoDriver:   "it has no usable GPU driver",
	job.NoEngine:   "its Docker engine does not answer",
	job.NoExecutor: "executors do not register with it in time",
}

// maxUnstartedAttempts limits the attempts of a task whose launches are lost or whose image fits no agent.
const maxUnstartedAttempts = 100

// retryLost returns the next attempt of a task whose state is lost. A launch that never reached its agent, for example
// because the offer was rescinded, does not count as a loss.
func (s *State) retryLost(next job.Task, attempt int, o attemptResult, ran bool) (job.Task, bool) {
	why := cmp.Or(o.message, o.reason, "the master no longer knows it")
	if ran {
		next.Losses++
	}
	if next.Losses >= s.cfg.MaxAttempts || attempt >= maxUnstartedAttempts {
		return job.Task{Message: fmt.Sprintf("lost in attempt %d, %d times on an agent (limit %d): %s", attempt, next.Losses, s.cfg.MaxAttempts, why)}, false
	}
	if attempt > 1 {
		next.NotBefore = s.now.Add(backoff.Delay(s.cfg.RetryDelay, s.cfg.RetryDelayMax, attempt-2))
	}
	next.Message = fmt.Sprintf("attempt %d was lost: %s", attempt, why)
	return next, true
}

// countFailures returns the failures of a task, or of all tasks of a gang, which are retried together.
func countFailures(ref taskRef) int {
	if !ref.job.Spec.Gang {
		return ref.get().Failures
	}
	n := 0
	for i := range ref.job.Tasks {
		n += ref.job.Tasks[i].Failures
	}
	return n
}

// endGang restarts the other tasks of a gang, or ends them for good, when one task has ended.
func (s *State) endGang(ref taskRef, old *job.Task, again bool) []Operation {
	var ops []Operation
	j := ref.job
	for i := range j.Tasks {
		other := taskRef{j, i}
		t := other.get()
		switch {
		case i == ref.index:
		case again && t.State.IsPlaced():
			ops = append(ops, s.requestFinalEnd(other, job.KillByGangRestart, "", fmt.Sprintf("task %d of its gang starts again", ref.index))...)
		case again && t.State == job.Finished:
			next := nextAttempt(t)
			next.Ran, next.Message = true, fmt.Sprintf("task %d of its gang starts again", ref.index)
			delete(s.tasks, t.ID)
			s.enqueueAttempt(other, next)
		case again:
		case t.State.IsPlaced():
			ops = append(ops, s.requestFinalEnd(other, job.KillByPeer, "", fmt.Sprintf("task %d of its gang ended: %s", ref.index, ref.get().State))...)
		case t.State == job.Waiting:
			s.transition(other, job.Killed, fmt.Sprintf("task %d of its gang ended: %s", ref.index, ref.get().State))
		}
	}
	return ops
}
