package sched

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"mesos-gpu/job"
)

// reconcileRound is one round of reconciliation of placed tasks. Each subscription starts a new one.
type reconcileRound struct {
	unanswered map[string]bool // placed tasks, by id, whose state is not reported yet
	due        time.Time       // when the next RECONCILE is sent
	tries      int             // repeated RECONCILEs of this round
	nextFull   time.Time       // when all tasks are reconciled next
}

// handleSubscribed starts again with a master that may not have recorded the framework's tasks yet.
func (s *State) handleSubscribed(now time.Time, e Subscribed) []Operation {
	s.connected, s.subscribedAt = true, now
	if e.FrameworkID != s.frameworkID {
		s.frameworkID = e.FrameworkID
		s.changes.FrameworkID = e.FrameworkID
	}
	for _, d := range s.offerDemands {
		*d = offerDemand{waiting: d.waiting, reviveWanted: d.waiting > 0}
	}
	s.offers = offerPool{offers: map[string]heldOffer{}, stale: true, pausesCheckedAt: s.offers.pausesCheckedAt}
	s.explanations, s.cache = nil, agentCache{}
	s.reconciliation = reconcileRound{
		unanswered: map[string]bool{},
		due:        now.Add(s.cfg.ReconcileRetry),
		nextFull:   now.Add(s.cfg.ReconcileRetry),
	}
	var kills []Operation
	for _, name := range s.queue {
		j := s.jobs[name]
		for i := range j.Tasks {
			t := &j.Tasks[i]
			if !t.State.IsPlaced() {
				continue
			}
			s.reconciliation.unanswered[t.ID] = true
			if !t.KillRequested.IsZero() {
				kills = append(kills, s.sendKill(now, taskRef{j, i})...)
			} else if t.State == job.Launching {
				s.deadlinesOf(t.ID).confirmBy = now.Add(s.cfg.LaunchTimeout)
			}
		}
	}
	return append(reconcileTasks(s.locateTasks(slices.Collect(maps.Keys(s.reconciliation.unanswered)))), kills...)
}

// handleDisconnected drops the offers of the subscription.
func (s *State) handleDisconnected() {
	s.connected = false
	s.removeOffers(s.now, slices.Collect(maps.Keys(s.offers.offers))...)
}

func (s *State) deadlinesOf(id string) *taskDeadlines {
	if s.deadlines[id] == nil {
		s.deadlines[id] = &taskDeadlines{}
	}
	return s.deadlines[id]
}

// handleTick does everything that is due.
func (s *State) handleTick(now time.Time) []Operation {
	ops := s.expireWaiting(now)
	if !s.connected {
		return ops
	}
	var doubtful []string
	for _, id := range slices.Sorted(maps.Keys(s.deadlines)) {
		tm, ref := s.deadlines[id], s.tasks[id]
		if tm == nil {
			continue // it ended with its gang
		}
		if isDue(tm.confirmBy, now) {
			tm.confirmBy = now.Add(s.cfg.LaunchTimeout)
			doubtful = append(doubtful, id)
		}
		if isDue(tm.killAt, now) {
			ops = append(ops, s.sendKill(now, ref)...)
		}
		if isDue(tm.timeoutAt, now) {
			ops = append(ops, s.requestEnd(now, ref, job.KillByTimeout, fmt.Sprintf("ran for %s, the job's timeout", ref.job.Spec.Timeout))...)
		}
		if isDue(tm.giveUpAt, now) {
			ops = append(ops, s.giveUpTask(now, ref)...)
		}
	}
	r := &s.reconciliation
	if len(r.unanswered) > 0 && isDue(r.due, now) {
		r.tries++
		r.due = now.Add(backoffDelay(s.cfg.ReconcileRetry, s.cfg.ReconcileRetryMax, r.tries))
		doubtful = append(doubtful, slices.Collect(maps.Keys(r.unanswered))...)
	}
	ops = append(ops, reconcileTasks(s.locateTasks(doubtful))...)
	if isDue(r.nextFull, now) {
		r.nextFull = now.Add(s.cfg.ReconcileAll)
		ops = append(ops, ReconcileTasks{})
	}
	return ops
}

func isDue(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// handleAcceptFailed makes the next tick reconcile the tasks.
func (s *State) handleAcceptFailed(now time.Time, ids []string) {
	for _, id := range ids {
		if tm := s.deadlines[id]; tm != nil && !tm.confirmBy.IsZero() {
			tm.confirmBy = now
		}
	}
}

// locateTasks returns the tasks with their agents, sorted by id, each once.
func (s *State) locateTasks(ids []string) []TaskLocation {
	slices.Sort(ids)
	var list []TaskLocation
	for _, id := range slices.Compact(ids) {
		if ref, ok := s.tasks[id]; ok {
			list = append(list, TaskLocation{TaskID: id, AgentID: ref.get().AgentID})
		}
	}
	return list
}

// reconcileTasks returns a RECONCILE of the tasks, and none for an empty list, which would mean all tasks.
func reconcileTasks(tasks []TaskLocation) []Operation {
	if len(tasks) == 0 {
		return nil
	}
	return []Operation{ReconcileTasks{Tasks: tasks}}
}

// giveUpTask declares a task lost whose agent has been unreachable for too long.
func (s *State) giveUpTask(now time.Time, ref taskRef) []Operation {
	u := TaskUpdate{State: job.Lost, Message: fmt.Sprintf("its agent was away for %s", s.unreachableTimeout(&ref.job.Spec))}
	ops := s.endAttempt(now, ref, attemptResultOf(ref, nextState(ref.get(), u), u))
	s.retireJob(ref.job)
	return ops
}

// expireWaiting fails jobs that have waited longer than their max_wait, and requests offers for tasks whose pause has
// ended.
func (s *State) expireWaiting(now time.Time) []Operation {
	var ops []Operation
	for _, q := range slices.Clone(s.queuedJobs()) {
		j := q.Job
		late := j.Spec.MaxWait > 0 && !now.Before(j.Submitted.Add(j.Spec.MaxWait))
		for i := range j.Tasks {
			ref := taskRef{j, i}
			switch t := ref.get(); {
			case t.State != job.Waiting:
			case late && !t.Ran:
				ops = append(ops, s.endAttempt(now, ref, attemptResult{state: job.Failed, message: fmt.Sprintf("found no place in %s, the job's max_wait", j.Spec.MaxWait)})...)
			case t.Attempt > 1 && t.NotBefore.After(s.offers.pausesCheckedAt) && !t.NotBefore.After(now):
				s.requestOffers(ref) // a first attempt has no pause
			}
		}
		s.retireJob(j)
	}
	s.offers.pausesCheckedAt = now
	return ops
}
