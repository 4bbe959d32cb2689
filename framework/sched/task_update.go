package sched

import (
	"fmt"
	"slices"
	"time"

	"mesos-gpu/job"
)

// handleTaskUpdate applies a task's status, which may be repeated, late, or about an unknown task, and acknowledges it.
func (s *State) handleTaskUpdate(u TaskUpdate) []Operation {
	var ops []Operation
	if ref, ok := s.tasks[u.TaskID]; !ok {
		if t, late := s.endedAttempts.recordLateEnd(u); late {
			s.changes.LateEnds = append(s.changes.LateEnds, t)
			s.unaccounted.add(t.ID)
		}
		ops = s.handleStrayUpdate(u)
	} else {
		ops = s.applyUpdate(ref, u)
		s.retireJob(ref.job)
	}
	if len(u.UUID) > 0 {
		ops = append(ops, AcknowledgeUpdate{AgentID: u.AgentID, TaskID: u.TaskID, UUID: u.UUID})
	}
	return ops
}

func (s *State) applyUpdate(ref taskRef, u TaskUpdate) []Operation {
	t := ref.get()
	delete(s.reconciliation.unanswered, t.ID)
	if u.State == "" {
		return nil // a state of a newer Mesos
	}
	if !t.State.IsPlaced() {
		return s.handleStrayUpdate(u) // given up, or it has ended according to an earlier update
	}
	d := s.deadlines[t.ID]
	if d != nil {
		d.confirmBy = time.Time{}
	}
	if u.State == job.Lost && u.Proof != ProvenEnd && u.Proof != AgentRemoved {
		return s.doubtAttempt(ref, u.Proof)
	}
	if d != nil && u.State.IsLive() {
		d.missedAt = time.Time{}
		if u.State != job.Unreachable {
			d.giveUpAt = time.Time{} // its agent is reachable
			d.unknownToMaster = d.unknownToMaster && !u.Reconciled
		}
	}
	if u.Reconciled && !u.State.IsLive() && u.State != job.Lost && u.State != job.Finished && s.awaitAgentStatus(t.ID, u) {
		return nil
	}
	if u.State == job.Unreachable {
		defer s.noteAbsence(t.AgentID)
	}
	s.deadlines.dropIdle(t.ID)
	switch next := nextState(t, u); {
	case next == t.State:
		s.applyRepeatedUpdate(ref, u)
	case next.IsLive():
		message := u.Message
		if next == job.Killing || !t.KillRequested.IsZero() && t.Message != "" {
			message = t.Message // why it ends
		}
		if s.transition(ref, next, message) { // false for a late update
			t := s.changeTask(ref)
			t.Reason = u.Reason
			applyCheckResults(t, u)
			if next == job.Running && len(t.Addresses) == 0 {
				// Agents add their own addresses to later statuses that have none.
				t.Addresses = slices.Clone(u.Addresses)
			}
		}
	default:
		if t.State.CanBecome(next) {
			applyCheckResults(s.changeTask(ref), u)
		}
		if u.Proof == AgentRemoved && t.State.CanBecome(next) {
			s.addStray(*t, ref.job, false) // first, so that its place is not free in between
		}
		return s.endAttempt(ref, attemptResultOf(ref, next, u))
	}
	return nil
}

// agentStatusWait is how long the failure of a task that the master reports is not applied. Agents send their own status at once
// to a scheduler that has subscribed again, and repeat it.
const agentStatusWait = 10 * time.Second

// reportedEnd is an end from a reconciliation or an agent's list of tasks. It has no reason: the exit code, a fault of the machine and an image that does
// not fit are in the agent's own status, and decide whether a retry is charged.
type reportedEnd struct {
	update TaskUpdate
	// applyAt is when the end is applied without a reason.
	applyAt time.Time
}

// awaitAgentStatus reports whether an end that is reported without a reason waits for the agent's own status.
func (s *State) awaitAgentStatus(taskID string, u TaskUpdate) bool {
	d := s.deadlines.entry(taskID)
	if d.reportedEnd == nil {
		d.reportedEnd = &reportedEnd{u, s.now.Add(agentStatusWait)}
	}
	return !isDue(d.reportedEnd.applyAt, s.now)
}

// nextState returns the state to which an update leads, given a requested kill and how far the task has come.
func nextState(t *job.Task, u TaskUpdate) job.State {
	wanted := !t.KillRequested.IsZero()
	switch {
	case wanted && u.State == job.Unreachable:
		return job.Unreachable
	case wanted && u.State.IsLive():
		return job.Killing
	case wanted && t.KillReason == job.KillByTimeout && u.State != job.Finished:
		return job.Failed
	case wanted && (u.State == job.Lost || u.State == job.Refused || u.MachineFault != ""): // it did not start
		return job.Killed
	case u.State == job.Refused && !t.State.CanBecome(job.Refused):
		return job.Failed // an error after it had started
	default:
		return u.State
	}
}

func attemptResultOf(ref taskRef, next job.State, u TaskUpdate) attemptResult {
	o := attemptResult{
		state:        next,
		message:      u.Message,
		reason:       u.Reason,
		exitCode:     u.ExitCode,
		drained:      u.Drained,
		mismatch:     u.Mismatch,
		machineFault: u.MachineFault,
	}
	if o.machineFault == job.NoExecutor && len(ref.job.Spec.Fetch) > 0 { // the agent may have waited for the job's files
		o.machineFault = ""
	}
	switch t := ref.get(); {
	case t.KillRequested.IsZero() || next == job.Finished:
	case t.KillReason == job.KillByTimeout:
		o.message = fmt.Sprintf("stopped after its timeout of %s", ref.job.Spec.Timeout)
	case t.KillReason != job.KillByUser && t.Message != "":
		o.message = t.Message
	}
	if next == job.Lost {
		o.exitCode = nil
	}
	return o
}

// applyRepeatedUpdate applies an update without a change of state: its message and check results.
func (s *State) applyRepeatedUpdate(ref taskRef, u TaskUpdate) {
	t := *ref.get()
	if d := s.deadlines[t.ID]; d != nil && t.State == job.Killing {
		d.giveUpAt = time.Time{} // its agent is reachable
	}
	news := applyCheckResults(&t, u)
	if !u.Reconciled && u.Message != "" && u.Message != t.Message && t.State != job.Killing {
		t.Message, t.Reason = u.Message, u.Reason
		news = true
	}
	if news {
		*s.changeTask(ref) = t
	}
}

// applyCheckResults applies the check results of an update, and reports whether they are new. An update without results
// changes nothing.
func applyCheckResults(t *job.Task, u TaskUpdate) bool {
	news := false
	if u.Healthy != nil && (t.Healthy == nil || *t.Healthy != *u.Healthy) {
		healthy := *u.Healthy
		t.Healthy, news = &healthy, true
	}
	switch failure := u.HealthFailure; {
	case failure != nil && (t.HealthFailure == nil || *t.HealthFailure != *failure):
		t.HealthFailure, news = failure, true
	case failure == nil && u.Healthy != nil && *u.Healthy && t.HealthFailure != nil:
		t.HealthFailure, news = nil, true
	}
	if u.Check != "" && u.Check != t.Check {
		t.Check, news = u.Check, true
	}
	return news
}
