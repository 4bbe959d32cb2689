package sched

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/job"
)

// outcome is how an attempt has ended.
type outcome struct {
	state           job.State
	message, reason string
	exitCode        *int
	// drained: its agent is taken away, it has done no wrong.
	drained bool
	// unfit: its image cannot run on its agent.
	unfit Unfit
}

// conclude takes in the end of an attempt and decides what becomes of the task:
// it stays as it ended, or goes back into the queue under a new id. Should the
// old attempt turn up after all, it is a stray. The tasks of a gang share
// their fate.
func (s *State) conclude(now time.Time, ref taskRef, o outcome) []Op {
	t := ref.task()
	old, ran := *t, t.State != job.Launching && t.State != job.Waiting
	if !s.move(now, ref, o.state, o.message) {
		return nil // late: something later is known already
	}
	t.Reason, t.ExitCode = o.reason, o.exitCode
	end := &s.changes.Moves[len(s.changes.Moves)-1]
	end.ExitCode, end.Cause = o.exitCode, o.cause(&old) // the task's may be another attempt's soon
	s.leave(now, ref.job, &old)
	if ref.job.Spec.MaxParallel > 0 {
		s.demandOf(ref.job.Spec.Role).wanted = true // another of its tasks may have its turn
	}
	next, again := s.again(now, ref, &old, o, ran)
	switch {
	case again:
		delete(s.tasks, old.ID)
		s.enqueue(now, ref, next)
	case next.Message != "":
		t.Message = next.Message
	}
	if ref.job.Spec.Gang && old.State != job.Waiting && old.KillReason != job.ByGang && old.KillReason != job.ByPeer && (again || o.state != job.Finished) {
		return s.gangEnded(now, ref, &old, again)
	}
	return nil
}

// again says whether the task is tried once more, and as what; if not, it
// may have the message for its end.
func (s *State) again(now time.Time, ref taskRef, old *job.Task, o outcome, ran bool) (next job.Task, again bool) {
	spec := &ref.job.Spec
	next = job.Task{Attempt: max(old.Attempt, 1) + 1, Failures: old.Failures, Losses: old.Losses, Ran: old.Ran || ran, Unfit: old.Unfit}
	wanted := !old.KillWanted.IsZero()
	attempt := next.Attempt - 1
	switch {
	case old.State == job.Waiting, wanted && !old.KillReason.Requeues():
		return job.Task{}, false
	case spec.Service != nil:
		return s.serve(now, ref, next, old, o)
	case wanted && old.KillReason == job.ByGang:
		next.Message = fmt.Sprintf("attempt %d ended with its gang", attempt)
		return next, true
	case wanted && o.state != job.Finished:
		next.Message = fmt.Sprintf("attempt %d was stopped: %s", attempt, old.Message)
		return next, true
	case o.drained && o.state != job.Finished:
		next.Message = fmt.Sprintf("attempt %d was stopped: its agent is drained", attempt)
		return next, true
	case o.state == job.Failed && o.unfit != "":
		return s.misfit(next, old, o)
	case o.state == job.Failed && failures(ref)+1 <= spec.Retries:
		next.Failures++
		next.NotBefore = now.Add(backoff(s.cfg.RetryDelay, s.cfg.RetryDelayMax, next.Failures-1))
		next.Message = fmt.Sprintf("attempt %d failed: %s; retry %d of %d", attempt, cmp.Or(o.message, o.reason, "no reason given"), failures(ref)+1, spec.Retries)
		return next, true
	case o.state == job.Lost:
		return s.lost(now, next, attempt, o, ran)
	}
	return job.Task{}, false
}

// misfit tries elsewhere what never started, for its image cannot run on its
// agent. That is no failure of the task and no start.
func (s *State) misfit(next job.Task, old *job.Task, o outcome) (job.Task, bool) {
	c, named := s.elsewhere(old, o.unfit)
	attempt := next.Attempt - 1
	if !named || attempt >= maxDrops {
		return job.Task{}, false
	}
	next.Ran = old.Ran
	next.Unfit = append(slices.Clip(old.Unfit), c)
	next.Message = fmt.Sprintf("attempt %d could not start on %s: %s", attempt, cmp.Or(old.Hostname, old.AgentID), cmp.Or(o.message, o.reason, "no reason given"))
	return next, true
}

// maxDrops bounds the attempts of a task whose launches are lost on the way,
// or whose image fits no agent.
const maxDrops = 100

// lost tries again what ended without a word. A launch that never got to its
// agent (an offer was withdrawn meanwhile) is no fault of the task.
func (s *State) lost(now time.Time, next job.Task, attempt int, o outcome, ran bool) (job.Task, bool) {
	why := cmp.Or(o.message, o.reason, "the master knows no more of it")
	if ran {
		next.Losses++
	}
	if next.Losses >= s.cfg.MaxAttempts || attempt >= maxDrops {
		return job.Task{Message: fmt.Sprintf("lost in attempt %d, %d times on an agent (limit %d): %s", attempt, next.Losses, s.cfg.MaxAttempts, why)}, false
	}
	if attempt > 1 {
		next.NotBefore = now.Add(backoff(s.cfg.RetryDelay, s.cfg.RetryDelayMax, attempt-2))
	}
	next.Message = fmt.Sprintf("attempt %d was lost: %s", attempt, why)
	return next, true
}

// failures counts those of a task, or of all tasks of a gang, which are
// retried together.
func failures(ref taskRef) int {
	if !ref.job.Spec.Gang {
		return ref.task().Failures
	}
	n := 0
	for i := range ref.job.Tasks {
		n += ref.job.Tasks[i].Failures
	}
	return n
}

// gangEnded ends the other tasks of a gang: to start anew with it, or for
// good.
func (s *State) gangEnded(now time.Time, ref taskRef, old *job.Task, again bool) []Op {
	var ops []Op
	j := ref.job
	for i := range j.Tasks {
		other := taskRef{j, i}
		t := other.task()
		switch {
		case i == ref.index:
		case again && t.State.Placed():
			ops = append(ops, s.endWithGang(now, other, job.ByGang, fmt.Sprintf("task %d of its gang starts anew", ref.index))...)
		case again && t.State == job.Finished:
			next := job.Task{Attempt: max(t.Attempt, 1) + 1, Failures: t.Failures, Losses: t.Losses, Ran: true, Unfit: t.Unfit, Message: fmt.Sprintf("task %d of its gang starts anew", ref.index)}
			delete(s.tasks, t.ID)
			s.enqueue(now, other, next)
		case again:
		case t.State.Placed():
			ops = append(ops, s.endWithGang(now, other, job.ByPeer, fmt.Sprintf("task %d of its gang ended: %s", ref.index, ref.task().State))...)
		case t.State == job.Waiting:
			s.move(now, other, job.Killed, fmt.Sprintf("task %d of its gang ended: %s", ref.index, ref.task().State))
		}
	}
	return ops
}

// endWithGang is end for a task that may already be on its way out to come
// back, and now must not.
func (s *State) endWithGang(now time.Time, ref taskRef, why job.KillReason, message string) []Op {
	t := ref.task()
	if !t.KillWanted.IsZero() {
		if t.KillReason.Requeues() {
			t.KillReason = why
			s.touch(ref)
		}
		return nil
	}
	return s.end(now, ref, why, message)
}
