package sched

import (
	"time"

	"mesos-gpu/job"
)

// enqueueAttempt starts an attempt of a task: it waits for a place. The attempt before it is kept as ended if it was
// launched. t has what the new attempt inherits.
func (s *State) enqueueAttempt(ref taskRef, t job.Task) {
	j := ref.job
	if old := &j.Tasks[ref.index]; old.ID != "" {
		s.keepAttempt(old, j)
	}
	if s.now.After(j.Submitted) {
		t.Queued = s.now
	}
	t.ID, t.Job, t.Run, t.Index = job.FormatTaskID(j, ref.index, t.Attempt), j.Spec.Name, j.Run, ref.index
	t.State, t.Changed, t.Version = job.Waiting, s.now, j.Version
	*s.changeTask(ref) = t
	s.tasks[t.ID] = ref
	s.liveTasks.Add(j.Spec, 1)
	s.requestOffers(ref)
	s.offerDemands.entry(j.Spec.Role).waiting++
	s.changes.addTransition(s.now, ref)
}

// changeTask returns a task for a change, which the journal records.
func (s *State) changeTask(ref taskRef) *job.Task {
	s.unshareTasks(ref.job)
	s.changes.markTask(ref)
	return ref.get()
}

// requestOffers makes Step revive offers for the role of a task, and the next cycle look at the held ones.
func (s *State) requestOffers(ref taskRef) {
	s.offerDemands.entry(ref.job.Spec.Role).reviveWanted = true
	s.offers.stale = true
}

// transition moves a task to another state, and returns false if its life cycle does not allow that.
func (s *State) transition(ref taskRef, next job.State, message string) bool {
	if was := ref.get().State; was == next || !was.CanBecome(next) {
		return false
	}
	t := s.changeTask(ref)
	switch was, is := t.State.IsPlaced(), next.IsPlaced(); {
	case is && !was:
		s.placed.countTask(ref.job, 1)
		s.held.add(s.holdingOf(ref.job, t))
	case was && !is:
		s.placed.countTask(ref.job, -1)
		s.releaseHolding(t.AgentID, t.ID)
		s.recordUsage(ref)
		s.countEndForBudgets(ref)
	}
	if t.State == job.Waiting {
		s.offerDemands.entry(ref.job.Spec.Role).waiting--
	}
	t.State, t.Changed, t.Message = next, s.now, message
	if next == job.Running && t.Started.IsZero() {
		t.Started = s.now
		s.forgetLostLaunches(t.AgentID)
		defer s.notifyStart(ref)
	}
	if !next.IsLive() {
		t.Ended = s.now
		s.unaccounted.add(t.ID)
		s.runTimes.addTask(ref.job, t)
		s.liveTasks.Add(ref.job.Spec, -1)
		delete(s.deadlines, t.ID)
		delete(s.reconciliation.unanswered, t.ID)
		s.offers.stale = true // a quota or a gang may have room now
	}
	s.updateDeadlines(ref)
	s.changes.addTransition(s.now, ref)
	return true
}

// updateDeadlines sets the deadlines of a placed task from its recorded fields.
func (s *State) updateDeadlines(ref taskRef) {
	t := ref.get()
	if !t.State.IsPlaced() {
		return
	}
	d := s.deadlines.entry(t.ID)
	d.timeoutAt = time.Time{}
	if t.State != job.Unreachable && t.State != job.Killing && !d.unknownToMaster {
		d.giveUpAt = time.Time{}
	}
	switch {
	case !t.KillRequested.IsZero():
		if d.killAt.IsZero() {
			d.killAt = t.KillRequested
		}
	case ref.job.Spec.Timeout > 0 && !t.Started.IsZero():
		d.timeoutAt = t.Started.Add(ref.job.Spec.Timeout - ref.job.SpecOf(t).WarningTime())
	}
	d.preemptibleAt = time.Time{}
	if spec := ref.job.Spec; spec.MinRunTime > 0 && !t.Started.IsZero() && t.KillRequested.IsZero() &&
		t.Started.Add(spec.MinRunTime).After(s.now) {
		d.preemptibleAt = t.Started.Add(spec.MinRunTime)
	}
	if wait := s.unreachableTimeout(ref.job.Spec); t.State == job.Unreachable && wait > 0 && d.giveUpAt.IsZero() {
		d.giveUpAt = t.Changed.Add(wait)
	}
	d.idleAt = s.idleDeadline(ref, d.idleAt)
	s.deadlines.dropIdle(t.ID)
}

// retireForGood marks a retired task so that scaling up does not restart it, and reports that as a transition. The task keeps
// the reason of its end.
func (s *State) retireForGood(ref taskRef) {
	t := s.changeTask(ref)
	t.KillReason, t.Changed = job.KillByEarlierScaling, s.now
	s.changes.addTransition(s.now, ref)
	s.changes.lastTransition().Repeated = true
}
