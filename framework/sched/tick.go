package sched

import (
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
	s.connected = true
	if e.FrameworkID != s.frameworkID {
		s.frameworkID = e.FrameworkID
		s.changes.FrameworkID = e.FrameworkID
	}
	s.offers = demand{wanted: s.waiting > 0}
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
				kills = append(kills, s.sendKill(now, t)...)
			} else if t.State == job.Launching {
				s.timers[t.ID] = &timer{confirm: now.Add(s.cfg.LaunchTimeout)}
			}
		}
	}
	return append(ask(s.where(slices.Collect(maps.Keys(s.reconcile.open)))), kills...)
}

// tick does what is due.
func (s *State) tick(now time.Time) []Op {
	if !s.connected {
		return nil
	}
	var ops []Op
	var doubtful []string
	for _, id := range slices.Sorted(maps.Keys(s.timers)) {
		tm, ref := s.timers[id], s.tasks[id]
		if due(tm.confirm, now) {
			tm.confirm = now.Add(s.cfg.LaunchTimeout)
			doubtful = append(doubtful, id)
		}
		if due(tm.kill, now) {
			ops = append(ops, s.sendKill(now, ref.task())...)
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
