package sched

import (
	"time"

	"mesos-gpu/job"
)

// killJob ends a job: tasks that wait at once, the others by KILL, which is
// repeated until they have ended.
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
			t.KillReason = job.KillByUser // and does not come back
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

// retireForGood has a retired task never be wanted again: who waits for the job's end
// is to hear of it.
func (s *State) retireForGood(now time.Time, ref taskRef, why string) {
	t := ref.get()
	t.KillReason, t.Changed, t.Message = job.KillByUser, now, why
	s.markTaskDirty(ref)
	s.recordTransition(now, t)
	s.changes.Transitions[len(s.changes.Transitions)-1].Repeated = true
}

// forceKill has each KILL of a placed task say that there is no grace, and reports
// whether one that did not is on its way.
func (s *State) forceKill(ref taskRef) bool {
	t := ref.get()
	if !t.State.IsPlaced() || t.KillForced {
		return false
	}
	t.KillForced = true
	s.markTaskDirty(ref)
	return !t.KillRequested.IsZero()
}

// requestEnd asks for a placed task's end. The first reason stays.
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

// sendKill sends a KILL and says when the next is due.
func (s *State) sendKill(now time.Time, ref taskRef) []Operation {
	t := ref.get()
	tm := s.deadlinesOf(t.ID)
	if !s.connected {
		tm.killAt = now // once there is a subscription
		return nil
	}
	tm.killAt = now.Add(backoffDelay(s.cfg.KillRetry, s.cfg.KillRetryMax, tm.killsSent))
	tm.killsSent++
	return []Operation{KillTask{TaskID: t.ID, AgentID: t.AgentID, Force: t.KillForced}}
}
