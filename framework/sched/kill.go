package sched

import (
	"time"

	"mesos-gpu/job"
)

// killJob kills a job: waiting tasks end at once, placed tasks by KILL operations, which are repeated until they have
// ended.
func (s *State) killJob(now time.Time, e KillJob) []Operation {
	j, ok := s.jobs[e.Job]
	if !ok || j.IsTerminal() {
		return nil
	}
	var ops []Operation
	for i := range j.Tasks {
		ref := taskRef{j, i}
		again := e.Force && s.forceKill(ref)
		switch t := ref.get(); {
		case t.IsRetired():
			s.retireForGood(now, ref, "its service has been killed")
		case t.State == job.Waiting:
			t.KillRequested = now
			s.transition(now, ref, job.Killed, "killed while it waited")
		case t.State.IsPlaced() && t.KillReason != job.KillByUser:
			t.KillReason = job.KillByUser // and does not restart
			s.markTaskDirty(ref)
		default:
			ops = append(ops, s.requestEnd(now, ref, job.KillByUser, "")...)
		}
		if again {
			ops = append(ops, s.sendKill(now, ref)...)
		}
	}
	s.retireJob(j)
	return ops
}

// retireForGood marks a retired task so that scaling up does not restart it, and reports that as a transition.
func (s *State) retireForGood(now time.Time, ref taskRef, why string) {
	t := ref.get()
	t.KillReason, t.Changed, t.Message = job.KillByUser, now, why
	s.markTaskDirty(ref)
	s.recordTransition(now, t)
	s.changes.Transitions[len(s.changes.Transitions)-1].Repeated = true
}

// forceKill makes later KILLs of a placed task skip its grace, and reports whether a KILL with grace was sent before.
func (s *State) forceKill(ref taskRef) bool {
	t := ref.get()
	if !t.State.IsPlaced() || t.KillForced {
		return false
	}
	t.KillForced = true
	s.markTaskDirty(ref)
	return !t.KillRequested.IsZero()
}

// requestEnd requests the end of a placed task. The first reason is kept.
func (s *State) requestEnd(now time.Time, ref taskRef, why job.KillReason, message string) []Operation {
	t := ref.get()
	if !t.State.IsPlaced() || !t.KillRequested.IsZero() {
		return nil
	}
	t.KillRequested, t.KillReason = now, why
	if !s.transition(now, ref, job.Killing, message) {
		s.updateDeadlines(ref)
	}
	s.markTaskDirty(ref)
	return s.sendKill(now, ref)
}

// sendKill returns a KILL, and sets when the next one is due.
func (s *State) sendKill(now time.Time, ref taskRef) []Operation {
	t := ref.get()
	tm := s.deadlinesOf(t.ID)
	if !s.connected {
		tm.killAt = now // sent after the next subscription
		return nil
	}
	tm.killAt = now.Add(backoffDelay(s.cfg.KillRetry, s.cfg.KillRetryMax, tm.killsSent))
	tm.killsSent++
	return []Operation{KillTask{TaskID: t.ID, AgentID: t.AgentID, Force: t.KillForced}}
}
