package sched

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"mesos-gpu/job"
)

// reconciliation is one round of questions about placed tasks. A newer round
// replaces it.
type reconciliation struct {
	open  map[string]bool // not answered yet
	due   time.Time
	tries int
	all   time.Time // when to ask for all the master knows
}

// subscribed starts afresh with a master that may remember nothing of us.
func (s *State) subscribed(now time.Time, e Subscribed) []Op {
	s.connected, s.since = true, now
	if e.FrameworkID != s.frameworkID {
		s.frameworkID = e.FrameworkID
		s.changes.FrameworkID = e.FrameworkID
	}
	for _, d := range s.demands {
		*d = demand{waiting: d.waiting, wanted: d.waiting > 0}
	}
	s.pool = pool{offers: map[string]held{}, stale: true, woken: s.pool.woken}
	s.explained, s.fleet = nil, fleet{}
	s.reconcile = reconciliation{
		open: map[string]bool{},
		due:  now.Add(s.cfg.ReconcileRetry),
		all:  now.Add(s.cfg.ReconcileRetry),
	}
	var kills []Op
	for _, name := range s.queue {
		j := s.jobs[name]
		for i := range j.Tasks {
			t := &j.Tasks[i]
			if !t.State.Placed() {
				continue
			}
			s.reconcile.open[t.ID] = true
			if !t.KillWanted.IsZero() {
				kills = append(kills, s.sendKill(now, taskRef{j, i})...)
			} else if t.State == job.Launching {
				s.timerOf(t.ID).confirm = now.Add(s.cfg.LaunchTimeout)
			}
		}
	}
	return append(ask(s.where(slices.Collect(maps.Keys(s.reconcile.open)))), kills...)
}

// disconnected forgets what went with the subscription.
func (s *State) disconnected() {
	s.connected = false
	s.putBack(s.now, slices.Collect(maps.Keys(s.pool.offers))...)
}

func (s *State) timerOf(id string) *timer {
	if s.timers[id] == nil {
		s.timers[id] = &timer{}
	}
	return s.timers[id]
}

// tick does what is due.
func (s *State) tick(now time.Time) []Op {
	ops := s.expire(now)
	if !s.connected {
		return ops
	}
	var doubtful []string
	for _, id := range slices.Sorted(maps.Keys(s.timers)) {
		tm, ref := s.timers[id], s.tasks[id]
		if tm == nil {
			continue // its gang went before it
		}
		if due(tm.confirm, now) {
			tm.confirm = now.Add(s.cfg.LaunchTimeout)
			doubtful = append(doubtful, id)
		}
		if due(tm.kill, now) {
			ops = append(ops, s.sendKill(now, ref)...)
		}
		if due(tm.timeout, now) {
			ops = append(ops, s.end(now, ref, job.ByTimeout, fmt.Sprintf("ran for %s, the job's timeout", ref.job.Spec.Timeout))...)
		}
		if due(tm.gone, now) {
			ops = append(ops, s.giveUp(now, ref)...)
		}
	}
	r := &s.reconcile
	if len(r.open) > 0 && due(r.due, now) {
		r.tries++
		r.due = now.Add(backoff(s.cfg.ReconcileRetry, s.cfg.ReconcileRetryMax, r.tries))
		doubtful = append(doubtful, slices.Collect(maps.Keys(r.open))...)
	}
	ops = append(ops, ask(s.where(doubtful))...)
	if due(r.all, now) {
		r.all = now.Add(s.cfg.ReconcileAll)
		ops = append(ops, Reconcile{})
	}
	return ops
}

func due(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// acceptFailed has the master asked at the next tick.
func (s *State) acceptFailed(now time.Time, ids []string) {
	for _, id := range ids {
		if tm := s.timers[id]; tm != nil && !tm.confirm.IsZero() {
			tm.confirm = now
		}
	}
}

// where says on which agents the tasks are, each once, by id.
func (s *State) where(ids []string) []TaskOn {
	slices.Sort(ids)
	var list []TaskOn
	for _, id := range slices.Compact(ids) {
		if ref, ok := s.tasks[id]; ok {
			list = append(list, TaskOn{TaskID: id, AgentID: ref.task().AgentID})
		}
	}
	return list
}

// ask makes a RECONCILE of the tasks; none for no task, which would ask for
// all.
func ask(tasks []TaskOn) []Op {
	if len(tasks) == 0 {
		return nil
	}
	return []Op{Reconcile{Tasks: tasks}}
}

// giveUp takes a task for lost whose agent has been away for too long.
func (s *State) giveUp(now time.Time, ref taskRef) []Op {
	u := Update{State: job.Lost, Message: fmt.Sprintf("its agent was away for %s", s.patience(&ref.job.Spec))}
	ops := s.conclude(now, ref, outcomeOf(ref, next(ref.task(), u), u))
	s.settle(ref.job)
	return ops
}

// expire ends jobs that have waited for too long, and wakes tasks whose pause
// is over.
func (s *State) expire(now time.Time) []Op {
	var ops []Op
	for _, q := range slices.Clone(s.queued()) {
		j := q.Job
		late := j.Spec.MaxWait > 0 && !now.Before(j.Submitted.Add(j.Spec.MaxWait))
		for i := range j.Tasks {
			ref := taskRef{j, i}
			switch t := ref.task(); {
			case t.State != job.Waiting:
			case late && !t.Ran:
				ops = append(ops, s.conclude(now, ref, outcome{state: job.Failed, message: fmt.Sprintf("found no place in %s, the job's max_wait", j.Spec.MaxWait)})...)
			case t.Attempt > 1 && t.NotBefore.After(s.pool.woken) && !t.NotBefore.After(now):
				s.demand(ref) // a first attempt has had no pause
			}
		}
		s.settle(j)
	}
	s.pool.woken = now
	return ops
}
