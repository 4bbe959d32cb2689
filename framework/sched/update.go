package sched

import (
	"cmp"
	"fmt"
	"time"

	"mesos-gpu/job"
)

// update applies a task's status. It may come twice, late, or for a task
// nobody remembers; the acknowledgement comes last in any case.
func (s *State) update(now time.Time, u Update) []Op {
	var ops []Op
	if ref, ok := s.tasks[u.TaskID]; !ok {
		ops = stray(u)
	} else {
		ops = s.apply(now, ref, u)
		s.settle(ref.job)
	}
	if len(u.UUID) > 0 {
		ops = append(ops, Acknowledge{AgentID: u.AgentID, TaskID: u.TaskID, UUID: u.UUID})
	}
	return ops
}

// stray ends a task that runs and should not.
func stray(u Update) []Op {
	if !u.State.Live() || u.State == job.Unreachable || u.State == job.Killing {
		return nil
	}
	return []Op{KillTask{TaskID: u.TaskID, AgentID: u.AgentID}}
}

func (s *State) apply(now time.Time, ref taskRef, u Update) []Op {
	t := ref.task()
	delete(s.reconcile.open, t.ID)
	if !t.State.Placed() {
		return stray(u) // not launched by us, given up, or ended as far as we know
	}
	if tm := s.timers[t.ID]; tm != nil {
		tm.confirm = time.Time{}
		if tm.kill.IsZero() {
			delete(s.timers, t.ID)
		}
	}
	switch next := next(t, u); {
	case next == job.Lost:
		s.lost(now, ref, u)
	case next == t.State:
		s.repeat(ref, u)
	default:
		s.follow(now, ref, next, u)
	}
	return nil
}

// next is the state an update leads to, given what people want of the task
// and how far it has come.
func next(t *job.Task, u Update) job.State {
	wanted := !t.KillWanted.IsZero()
	switch {
	case wanted && u.State.Live():
		return job.Killing
	case wanted && (u.State == job.Lost || u.State == job.Refused):
		return job.Killed
	case u.State == job.Refused && !t.State.May(job.Refused):
		return job.Failed // an error after it had started
	default:
		return u.State
	}
}

// repeat takes what is new in an update that changes no state.
func (s *State) repeat(ref taskRef, u Update) {
	t := ref.task()
	if u.Reconciled || u.Message == "" || u.Message == t.Message {
		return
	}
	t.Message, t.Reason = u.Message, u.Reason
	s.touch(ref)
}

func (s *State) follow(now time.Time, ref taskRef, next job.State, u Update) {
	if !s.move(now, ref, next, u.Message) {
		return // late: something later is known already
	}
	t := ref.task()
	t.Reason = u.Reason
	if !next.Live() {
		t.ExitCode = u.ExitCode
	}
}

// lost puts a task that ended without a word back into the queue, under a new
// id: should the old attempt turn up after all, it is a stray.
func (s *State) lost(now time.Time, ref taskRef, u Update) {
	if !s.move(now, ref, job.Lost, u.Message) {
		return
	}
	t := ref.task()
	t.Reason = u.Reason
	why := cmp.Or(u.Message, u.Reason, "the master knows no more of it")
	attempt := max(t.Attempt, 1)
	if attempt >= s.cfg.MaxAttempts {
		t.Message = fmt.Sprintf("lost in attempt %d of %d: %s", attempt, s.cfg.MaxAttempts, why)
		return
	}
	delete(s.tasks, t.ID)
	s.enqueue(now, ref, attempt+1, fmt.Sprintf("attempt %d was lost: %s", attempt, why))
}
