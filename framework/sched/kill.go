package sched

import (
	"time"

	"mesos-gpu/job"
)

// kill ends a job: tasks that wait at once, the others by KILL, which is
// repeated until they have ended.
func (s *State) kill(now time.Time, name string) []Op {
	j, ok := s.jobs[name]
	if !ok || j.Terminal() {
		return nil
	}
	var ops []Op
	for i := range j.Tasks {
		ref := taskRef{j, i}
		switch t := ref.task(); {
		case t.State == job.Waiting:
			t.KillWanted = now
			s.move(now, ref, job.Killed, "killed while it waited")
		case t.State.Placed() && t.KillWanted.IsZero():
			t.KillWanted = now
			s.move(now, ref, job.Killing, "")
			s.touch(ref)
			ops = append(ops, s.sendKill(now, t)...)
		}
	}
	s.settle(j)
	return ops
}

// sendKill sends a KILL and says when the next is due.
func (s *State) sendKill(now time.Time, t *job.Task) []Op {
	tm := s.timers[t.ID]
	if tm == nil {
		tm = &timer{}
		s.timers[t.ID] = tm
	}
	if !s.connected {
		tm.kill = now // once there is a subscription
		return nil
	}
	tm.kill = now.Add(backoff(s.cfg.KillRetry, s.cfg.KillRetryMax, tm.kills))
	tm.kills++
	return []Op{KillTask{TaskID: t.ID, AgentID: t.AgentID}}
}
