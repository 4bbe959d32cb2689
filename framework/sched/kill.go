package sched

import (
	"time"

	"mesos-gpu/job"
)

// killJob kills a job: waiting tasks end at once, placed tasks by KILL operations, which are repeated until they have
// ended.
func (s *State) killJob(e KillJob) []Operation {
	j, ok := s.jobs.Find(e.Job)
	if !ok || j.IsTerminal() {
		return nil
	}
	var ops []Operation
	for i := range j.Tasks {
		ref := taskRef{j, i}
		again := e.Force && s.forceKill(ref)
		switch t := ref.get(); {
		case t.IsRetired():
			s.retireForGood(ref)
		case t.State == job.Waiting:
			t = s.changeTask(ref)
			t.KillRequested, t.KilledBy = s.now, e.By
			s.transition(ref, job.Killed, "killed while it waited")
		case t.State.IsPlaced() && t.KillReason != job.KillByUser:
			warned := warnedGrace(ref) > 0
			t = s.changeTask(ref)
			t.KillReason, t.KilledBy = job.KillByUser, e.By // and does not restart
			if warned && !again {                           // its warning ends here
				ops = append(ops, s.sendKill(ref)...)
			}
		default:
			ops = append(ops, s.requestEnd(ref, job.KillByUser, e.By, "")...)
		}
		if again {
			ops = append(ops, s.sendKill(ref)...)
		}
	}
	s.retireJob(j)
	return ops
}

// forceKill makes later KILLs of a placed task skip its grace, and reports whether a KILL with grace was sent before.
func (s *State) forceKill(ref taskRef) bool {
	t := ref.get()
	if !t.State.IsPlaced() || t.KillForced {
		return false
	}
	s.changeTask(ref).KillForced = true
	return !t.KillRequested.IsZero()
}

// requestEnd requests the end of a placed task, by a user or for a job. The first reason is kept.
func (s *State) requestEnd(ref taskRef, why job.KillReason, by, message string) []Operation {
	t := ref.get()
	if !t.State.IsPlaced() || !t.KillRequested.IsZero() {
		return nil
	}
	t = s.changeTask(ref)
	t.KillRequested, t.KillReason, t.KilledBy = s.now, why, by
	if !s.transition(ref, job.Killing, message) {
		s.updateDeadlines(ref)
	}
	s.notifyStopRequest(ref, why, message)
	return s.sendKill(ref)
}

// requestFinalEnd requests the end of a placed task. If its end was requested before so that it restarts, the new reason
// decides whether it does.
func (s *State) requestFinalEnd(ref taskRef, why job.KillReason, by, message string) []Operation {
	if ref.get().KillReason.RequeuesTask() {
		t := s.changeTask(ref)
		t.KillReason, t.KilledBy = why, by
		return nil
	}
	return s.requestEnd(ref, why, by, message)
}

// warnedGrace returns the grace period of a task whose end was requested, with its warning; 0 if it is not warned. KILLs
// are repeated with the same period, which an executor counts from the first one.
func warnedGrace(ref taskRef) time.Duration {
	t := ref.get()
	spec := ref.job.SpecOf(t)
	if t.KillForced || spec.Warn == nil || t.KillRequested.IsZero() || !t.KillReason.WarnsTask() {
		return 0
	}
	return spec.EvictionGrace()
}

// sendKill returns a KILL, and sets when the next one is due. KILLs are repeated until the task has ended, because Mesos
// does not deliver them reliably.
func (s *State) sendKill(ref taskRef) []Operation {
	t := ref.get()
	tm := s.deadlines.entry(t.ID)
	if !s.connected {
		tm.killAt = s.now // sent after the next subscription
		return nil
	}
	tm.scheduleNextKill(s)
	ops := []Operation{KillTask{TaskID: t.ID, AgentID: t.AgentID, Force: t.KillForced, Grace: warnedGrace(ref)}}
	if tm.unknownToMaster {
		ops = append(ops, ShutdownExecutor{TaskID: t.ID, AgentID: t.AgentID})
	}
	return ops
}
