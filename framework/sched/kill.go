package sched

import (
	"time"

	"mesos-gpu/job"
)

// kill ends a job: tasks that wait at once, the others by KILL, which is
// repeated until they have ended.
func (s *State) kill(now time.Time, e Kill) []Op {
	j, ok := s.jobs[e.Job]
	if !ok || j.Terminal() {
		return nil
	}
	var ops []Op
	for i := range j.Tasks {
		ref := taskRef{j, i}
		again := e.Force && s.hasten(ref)
		switch t := ref.task(); {
		case t.Retired():
			s.dismiss(now, ref, "its service has been killed")
		case t.State == job.Waiting:
			t.KillWanted = now
			s.move(now, ref, job.Killed, "killed while it waited")
		case t.State.Placed() && t.KillReason != job.ByPerson:
			t.KillReason = job.ByPerson // and does not come back
			s.touch(ref)
		default:
			ops = append(ops, s.end(now, ref, job.ByPerson, "")...)
		}
		if again {
			ops = append(ops, s.sendKill(now, ref)...)
		}
	}
	s.settle(j)
	return ops
}

// dismiss has a retired task never be wanted again: who waits for the job's end
// is to hear of it.
func (s *State) dismiss(now time.Time, ref taskRef, why string) {
	t := ref.task()
	t.KillReason, t.Changed, t.Message = job.ByPerson, now, why
	s.touch(ref)
	s.note(now, t)
	s.changes.Moves[len(s.changes.Moves)-1].Again = true
}

// hasten has each KILL of a placed task say that there is no grace, and reports
// whether one that did not is on its way.
func (s *State) hasten(ref taskRef) bool {
	t := ref.task()
	if !t.State.Placed() || t.KillForced {
		return false
	}
	t.KillForced = true
	s.touch(ref)
	return !t.KillWanted.IsZero()
}

// end asks for a placed task's end. The first reason stays.
func (s *State) end(now time.Time, ref taskRef, why job.KillReason, message string) []Op {
	t := ref.task()
	if !t.State.Placed() || !t.KillWanted.IsZero() {
		return nil
	}
	t.KillWanted, t.KillReason = now, why
	if !s.move(now, ref, job.Killing, message) {
		s.watch(ref)
	}
	s.touch(ref)
	return s.sendKill(now, ref)
}

// sendKill sends a KILL and says when the next is due.
func (s *State) sendKill(now time.Time, ref taskRef) []Op {
	t := ref.task()
	tm := s.timerOf(t.ID)
	if !s.connected {
		tm.kill = now // once there is a subscription
		return nil
	}
	tm.kill = now.Add(backoff(s.cfg.KillRetry, s.cfg.KillRetryMax, tm.kills))
	tm.kills++
	return []Op{KillTask{TaskID: t.ID, AgentID: t.AgentID, Force: t.KillForced}}
}
