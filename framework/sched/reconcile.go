package sched

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"mesos-gpu/internal/backoff"
	"mesos-gpu/job"
)

// handleSubscribed starts again with a master that may not have recorded the framework's tasks yet.
func (s *State) handleSubscribed(e Subscribed) []Operation {
	s.connected, s.subscribedAt = true, s.now
	if e.FrameworkID != s.frameworkID {
		s.frameworkID = e.FrameworkID
		s.changes.FrameworkID = e.FrameworkID
	}
	for _, d := range s.offerDemands {
		*d = offerDemand{waiting: d.waiting, reviveWanted: d.waiting > 0}
	}
	s.offers = offerPool{offers: map[string]heldOffer{}, stale: true, pausesCheckedAt: s.offers.pausesCheckedAt}
	clear(s.returned.byAgent)
	s.explanations, s.agentCache = nil, agentCache{}
	s.reconciliation = reconcileRound{
		unanswered: map[string]bool{},
		due:        s.now.Add(s.cfg.ReconcileRetry),
		nextFull:   s.now.Add(s.cfg.ReconcileRetry),
	}
	clear(s.inspections)
	clear(s.absentAgents)
	clear(s.conflicts)
	for _, stray := range s.strays {
		stray.unknownToMaster, stray.missedAt, stray.killAt = false, time.Time{}, time.Time{}
	}
	var kills []Operation
	for ref := range s.placedTasks() {
		t := ref.get()
		if d := s.deadlines[t.ID]; d != nil {
			d.unknownToMaster, d.missedAt = false, time.Time{}
		}
		s.reconciliation.unanswered[t.ID] = true
		if !t.KillRequested.IsZero() {
			kills = append(kills, s.sendKill(ref)...)
		} else if t.State == job.Launching {
			s.deadlines.entry(t.ID).confirmBy = s.now.Add(s.cfg.LaunchTimeout)
		}
	}
	return append(s.reconcileTasks(slices.Collect(maps.Keys(s.reconciliation.unanswered))), kills...)
}

// handleDisconnected drops the offers of the subscription.
func (s *State) handleDisconnected() {
	s.connected = false
	s.removeOffers(slices.Collect(maps.Keys(s.offers.offers)))
}

// handleTick does everything that is due.
func (s *State) handleTick() []Operation {
	ops := s.expireWaiting()
	s.expireEndedJobs()
	s.updateBudgetsOfMonth()
	if !s.connected {
		return ops
	}
	ops = append(ops, s.advanceUpdates()...)
	var doubtful []string
	for _, id := range slices.Sorted(maps.Keys(s.deadlines)) {
		tm, ref := s.deadlines[id], s.tasks[id]
		if tm == nil {
			continue // it ended with its gang
		}
		tm.timeoutAt = limitWait(tm.timeoutAt, s.now, ref.job.Spec.Timeout)
		if wait := s.unreachableTimeout(ref.job.Spec); wait > 0 {
			tm.giveUpAt = limitWait(tm.giveUpAt, s.now, wait)
		}
		if isDue(tm.confirmBy, s.now) {
			tm.confirmBy = s.now.Add(s.cfg.LaunchTimeout)
			doubtful = append(doubtful, id)
		}
		if isDue(tm.killAt, s.now) {
			ops = append(ops, s.sendKill(ref)...)
		}
		if isDue(tm.timeoutAt, s.now) {
			ops = append(ops, s.endAtTimeout(ref)...)
		}
		if isDue(tm.preemptibleAt, s.now) {
			tm.preemptibleAt, s.offers.stale = time.Time{}, true
			s.deadlines.dropIdle(id)
		}
		if !tm.idleAt.IsZero() {
			ops = append(ops, s.endIdleTask(ref, tm)...)
		}
		if e := tm.reportedEnd; e != nil && isDue(e.applyAt, s.now) {
			ops = append(ops, s.applyUpdate(ref, e.update)...)
			s.retireJob(ref.job)
			continue
		}
		if isDue(tm.giveUpAt, s.now) {
			message := fmt.Sprintf("its agent was away for %s", s.unreachableTimeout(ref.job.Spec))
			if tm.unknownToMaster {
				message = "the master does not know it, and its agent does not answer"
			}
			ops = append(ops, s.giveUpTask(ref, message)...)
		}
	}
	r := &s.reconciliation
	if len(r.unanswered) > 0 && isDue(r.due, s.now) {
		r.tries++
		r.due = s.now.Add(backoff.Delay(s.cfg.ReconcileRetry, reconcileRetryMax, r.tries))
		doubtful = append(doubtful, slices.Collect(maps.Keys(r.unanswered))...)
	}
	ops = append(ops, s.reconcileTasks(doubtful)...)
	ops = append(ops, s.inspectAgents()...)
	ops = append(ops, s.killStrays()...)
	ops = append(ops, s.endTimedHoldings()...)
	if isDue(r.nextFull, s.now) {
		r.nextFull = s.now.Add(fullReconcileInterval)
		ops = append(ops, ReconcileTasks{})
	}
	return ops
}

// endAtTimeout requests the end of a task that has run for its job's timeout, or will have after its warning.
func (s *State) endAtTimeout(ref taskRef) []Operation {
	spec := ref.job.Spec
	message := fmt.Sprintf("ran for %s, the job's timeout", spec.Timeout)
	if ref.job.SpecOf(ref.get()).Warn != nil {
		message = fmt.Sprintf("reaches its timeout of %s", spec.Timeout)
	}
	if spec.OnTimeout == job.RequeueOnTimeout {
		return s.requestEnd(ref, job.KillByRequeue, "", message)
	}
	return s.requestEnd(ref, job.KillByTimeout, "", message)
}

// handleAcceptFailed makes the next tick reconcile the tasks.
func (s *State) handleAcceptFailed(ids []string) {
	for _, id := range ids {
		if tm := s.deadlines[id]; tm != nil && !tm.confirmBy.IsZero() {
			tm.confirmBy = s.now
		}
	}
}

// reconcileTasks returns a RECONCILE of the tasks with their agents, sorted by id, each once. It returns none for an empty
// list, which would mean all tasks.
func (s *State) reconcileTasks(ids []string) []Operation {
	slices.Sort(ids)
	var list []TaskLocation
	for _, id := range slices.Compact(ids) {
		if ref, ok := s.tasks[id]; ok {
			list = append(list, TaskLocation{TaskID: id, AgentID: ref.get().AgentID})
		}
	}
	if len(list) == 0 {
		return nil
	}
	return []Operation{ReconcileTasks{Tasks: list}}
}

// giveUpTask declares a task lost whose end is not proven. Until its agent is back and proves its end, it holds its place.
func (s *State) giveUpTask(ref taskRef, message string) []Operation {
	u := TaskUpdate{State: job.Lost, Message: message}
	s.addStray(*ref.get(), ref.job, false) // first, so that its place is not free in between
	ops := s.endAttempt(ref, attemptResultOf(ref, nextState(ref.get(), u), u))
	s.retireJob(ref.job)
	return ops
}

// warningTimes returns the different times between the warning and SIGTERM of the placed tasks, 0 if there are none.
func (s *State) warningTimes() []time.Duration {
	times := []time.Duration{0}
	for ref := range s.placedTasks() {
		if warning := ref.job.SpecOf(ref.get()).WarningTime(); !slices.Contains(times, warning) {
			times = append(times, warning)
		}
	}
	return times
}

// hasForgottenPlace reports whether a place is forgotten on which plans have counted although Mesos has not offered it: one
// that a task freed, or what an agent had left.
func (s *State) hasForgottenPlace(isNewlyDue func(time.Time) bool) bool {
	if slices.ContainsFunc(s.freed, func(p freedPlace) bool { return isNewlyDue(p.until) }) {
		return true
	}
	for _, last := range s.lastOffered {
		if isNewlyDue(last.at.Add(leftoverValidity + 1)) {
			return true
		}
	}
	return false
}

// expireWaiting fails jobs that have waited longer than their max_wait, and requests offers for tasks whose pause has
// ended.
func (s *State) expireWaiting() []Operation {
	isNewlyDue := func(at time.Time) bool { return at.After(s.offers.pausesCheckedAt) && !at.After(s.now) }
	reclaims := s.Reclaims()
	if reclaims && s.queue.count > 0 && s.hasForgottenPlace(isNewlyDue) {
		s.offers.stale = true // GPUs may have to be reclaimed instead
	}
	warningTimes := sync.OnceValue(s.warningTimes)
	isLate := func(j *job.Job) bool { return j.Spec.MaxWait > 0 && !s.now.Before(j.Submitted.Add(j.Spec.MaxWait)) }
	var due []*job.Job // the queue must not change while it is read
	for j := range s.queue.all() {
		preemptsAt := j.Submitted.Add(j.Spec.PreemptAfter)
		mayPreempt := j.Spec.PreemptAfter > 0 &&
			slices.ContainsFunc(warningTimes(), func(warning time.Duration) bool { return isNewlyDue(preemptsAt.Add(-warning)) })
		if mayPreempt || reclaims && isNewlyDue(s.offersDue(j.Spec.Role, j.Submitted)) {
			s.offers.stale = true // it may preempt others, or reclaim GPUs, now
		}
		if isLate(j) || hasPausedTask(j) {
			due = append(due, j)
		}
	}
	var ops []Operation
	for _, j := range due {
		late := isLate(j)
		for i := range j.Tasks {
			ref := taskRef{j, i}
			t := ref.get()
			if t.State != job.Waiting || t.NotBefore.IsZero() && !late {
				continue
			}
			allowed := s.longestPause(j.Spec)
			if t.Attempt <= 1 {
				allowed = 0 // it has no pause, its time is in the future if the clock was set back
			}
			if limited := limitWait(t.NotBefore, s.now, allowed); limited != t.NotBefore {
				t = s.changeTask(ref)
				t.NotBefore = limited
				if allowed == 0 {
					s.requestOffers(ref)
				}
			}
			switch {
			case late && !t.Ran:
				ops = append(ops, s.endAttempt(ref, attemptResult{state: job.Failed, message: fmt.Sprintf("found no place in %s, the job's max_wait", j.Spec.MaxWait)})...)
			case t.Attempt > 1 && isNewlyDue(t.NotBefore):
				s.requestOffers(ref)
			}
		}
		if late {
			s.retireJob(j)
		}
	}
	s.offers.pausesCheckedAt = s.now
	return ops
}

// hasPausedTask reports whether a waiting task of a job has or had a pause.
func hasPausedTask(j *job.Job) bool {
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.State == job.Waiting && !t.NotBefore.IsZero() {
			return true
		}
	}
	return false
}
