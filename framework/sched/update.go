package sched

import (
	"fmt"
	"slices"
	"time"

	"mesos-gpu/job"
)

// update applies a task's status. It may come twice, late, or for a task
// nobody remembers; the acknowledgement comes last in any case.
func (s *State) update(now time.Time, u Update) []Op {
	var ops []Op
	if ref, ok := s.tasks[u.TaskID]; !ok {
		s.late(u)
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
	if u.State == "" {
		return nil // a newer Mesos's word
	}
	if !t.State.Placed() {
		return stray(u) // not launched by us, given up, or ended as far as we know
	}
	if tm := s.timers[t.ID]; tm != nil {
		tm.confirm = time.Time{}
		if tm.idle() {
			delete(s.timers, t.ID)
		}
	}
	switch next := next(t, u); {
	case next == t.State:
		s.repeat(ref, u)
	case next.Live():
		message := u.Message
		if next == job.Killing {
			message = t.Message
		}
		if s.move(now, ref, next, message) { // else late: something later is known already
			t.Reason = u.Reason
			hear(t, u)
			if next == job.Running && len(t.Addresses) == 0 {
				// Agents write their own into later statuses that have none.
				t.Addresses = slices.Clone(u.Addresses)
			}
		}
	default:
		if t.State.May(next) {
			hear(t, u)
		}
		return s.conclude(now, ref, outcomeOf(ref, next, u))
	}
	return nil
}

// next is the state an update leads to, given what people want of the task
// and how far it has come.
func next(t *job.Task, u Update) job.State {
	wanted := !t.KillWanted.IsZero()
	switch {
	case wanted && u.State == job.Unreachable:
		return job.Unreachable
	case wanted && u.State.Live():
		return job.Killing
	case wanted && t.KillReason == job.ByTimeout && u.State != job.Finished:
		return job.Failed
	case wanted && (u.State == job.Lost || u.State == job.Refused):
		return job.Killed
	case u.State == job.Refused && !t.State.May(job.Refused):
		return job.Failed // an error after it had started
	default:
		return u.State
	}
}

func outcomeOf(ref taskRef, next job.State, u Update) outcome {
	o := outcome{state: next, message: u.Message, reason: u.Reason, exitCode: u.ExitCode, drained: u.Drained, unfit: u.Unfit}
	switch t := ref.task(); {
	case t.KillWanted.IsZero() || next == job.Finished:
	case t.KillReason == job.ByTimeout:
		o.message = fmt.Sprintf("stopped after its timeout of %s", ref.job.Spec.Timeout)
	case t.KillReason != job.ByPerson && t.Message != "":
		o.message = t.Message
	}
	if next == job.Lost {
		o.exitCode = nil
	}
	return o
}

// repeat takes what is new in an update that changes no state: a message, or
// what the task's checks have found.
func (s *State) repeat(ref taskRef, u Update) {
	t := ref.task()
	news := hear(t, u)
	if !u.Reconciled && u.Message != "" && u.Message != t.Message && t.State != job.Killing {
		t.Message, t.Reason = u.Message, u.Reason
		news = true
	}
	if news {
		s.touch(ref)
	}
}

// hear takes in what a task's checks have found, and reports whether that is
// new. An update that says nothing of it changes nothing.
func hear(t *job.Task, u Update) bool {
	news := false
	if u.Healthy != nil && (t.Healthy == nil || *t.Healthy != *u.Healthy) {
		healthy := *u.Healthy
		t.Healthy, news = &healthy, true
	}
	if u.Check != "" && u.Check != t.Check {
		t.Check, news = u.Check, true
	}
	return news
}
