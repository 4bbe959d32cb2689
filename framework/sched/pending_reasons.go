package sched

import (
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// PendingReasons returns why each of the runs waits, according to the last offers and the last list of agents. Runs
// without waiting tasks are left out. Without arguments it covers all jobs.
func (s *State) PendingReasons(runs ...job.RunID) map[job.RunID]placement.PendingReason {
	if len(runs) == 0 {
		for j := range s.queue.all() {
			runs = append(runs, j.RunID())
		}
	}
	capacity, isComplete := s.totalCapacity()
	reasons, roles := map[job.RunID]placement.PendingReason{}, s.roleNames()
	var groups map[queue.GroupKey][]string
	var usage *quota.Tracker
	for _, run := range runs {
		j, ok := s.jobs.FindRun(run)
		if !ok || j.IsTerminal() {
			continue
		}
		if j.Spec.Group != "" && groups == nil {
			groups = s.agentsByGroup()
		}
		waiting := 0
		for i := range j.Tasks {
			if j.Tasks[i].State == job.Waiting {
				waiting++
			}
		}
		if waiting == 0 {
			continue
		}
		r := placement.PendingReason{Run: run, Missing: waiting, Tasks: j.WantedTasks()}
		w, _ := s.appendReadyTasks(j, groups, nil)
		reserved, behindHead := s.reservationReasons[run]
		var infeasible placement.PendingCause
		isInfeasible := false
		if isComplete {
			infeasible, isInfeasible = s.explainInfeasible(capacity, &w, j.WantedTasks())
		}
		switch {
		case s.holds.IsHeld(j):
			r.PendingCause = s.holds.explain(j)
		case !slices.Contains(roles, s.roleOf(j.Spec)):
			r.PendingCause = placement.PendingCause{
				Needs:     "role " + j.Spec.Role + ", which the scheduler does not have",
				Available: "it has " + strings.Join(roles, ", ") + ": add the role to the roles file, or move the job",
			}
		case len(w.Tasks) == 0:
			r.PendingCause = pending.ExplainDeferral(s.now, j, s.stateOf)
		case behindHead && !isInfeasible:
			r.PendingCause, r.Missing = reserved.PendingCause, min(reserved.Missing, waiting)
		default:
			if usage == nil {
				in := s.newPlacementInput()
				usage = s.newUsage(in.Running, in.Waiting)
			}
			r.PendingCause = s.explainer().Explain(&w, usage)
			if r.BlockedBy == placement.BlockedByQuota {
				r.Available += usage.ShareNote(j.Spec) + s.budgets.note(j.Spec)
				break // more agents would not help
			}
			if isInfeasible {
				r.PendingCause = infeasible
				r.Available += "; it cannot start with the present agents"
				break
			}
			r.Available += usage.ShareNote(j.Spec) + s.budgets.note(j.Spec) + s.blockedClaims[run] + usage.MesosQuotaNote(j.Spec)
		}
		reasons[run] = r
	}
	return reasons
}

// CountExclusions returns how many agents each cause excludes for the waiting tasks of each of the runs, according to
// the last offers. Runs without tasks that wait for resources are left out.
func (s *State) CountExclusions(runs ...job.RunID) map[job.RunID][]job.ExclusionCount {
	counts := map[job.RunID][]job.ExclusionCount{}
	var groups map[queue.GroupKey][]string
	for _, run := range runs {
		j, ok := s.jobs.FindRun(run)
		if !ok || j.IsTerminal() {
			continue
		}
		if j.Spec.Group != "" && groups == nil {
			groups = s.agentsByGroup()
		}
		if w, _ := s.appendReadyTasks(j, groups, nil); len(w.Tasks) > 0 {
			counts[run] = s.explainer().CountExclusions(&w)
		}
	}
	return counts
}

// explainer returns the explainer for all agents as they are now. It is kept until an offer, an agent, a cordon or the
// policy changes.
func (s *State) explainer() *pending.Explainer {
	if s.explanations == nil {
		all := fit.CollectAgents(s.offers.heldOffers())
		offered := map[placement.AgentKey]bool{}
		for i := range all {
			offered[placement.KeyOfAgent(&all[i])] = true
			s.addListed(&all[i])
		}
		all = append(all, s.knownAgents(offered, s.roleNames())...)
		s.explanations = pending.NewExplainer(all, s.agentStatus, &s.cfg.Policy.Policy, s.now)
	}
	return s.explanations
}

// newUsage returns what roles hold, with the GPU models of all agents.
func (s *State) newUsage(running []queue.RunningTask, waiting []queue.WaitingJob) *quota.Tracker {
	usage := quota.NewTracker(queue.Entitlements(s.budgets.lowerRoles(s.cfg.Policy.Roles)), s.explainer().Agents())
	if s.cfg.Policy.PursuesEntitlements() {
		usage.PursueEntitlements()
	}
	queue.CountUsage(usage, running)
	usage.SetRecentUsage(s.RecentUsage())
	usage.SetMesosQuotas(s.mesosQuotas)
	usage.SetUsedUpBudgets(s.budgets.usedUp)
	if s.cfg.Policy.PursuesEntitlements() {
		queue.AddDemand(usage, waiting)
		usage.UpdateEntitlements()
	}
	return usage
}

func (s *State) agentStatus(a *fit.AgentResources) pending.AgentStatus {
	cordon, _ := FindCordon(s.cordons, a.Hostname, a.ID)
	_, offered := s.lastOffered[placement.KeyOfAgent(a)]
	pause, lost := s.launchPause(a.ID, s.now)
	conflict, whole := s.explainConflict(placement.KeyOfAgent(a))
	return pending.AgentStatus{
		Conflict: conflict, Whole: whole,
		Closed: s.isClosed(a.Hostname, a.ID) || pause > 0, LostLaunches: lost, Draining: s.listedAgents[a.ID].Draining || cordon.Drain,
		Host: cordonHost(a.Hostname, a.ID), Reason: cordon.Reason, Offered: offered,
	}
}

// settleTime is how long a task must have waited, with a subscription, before its demand is unmet: offers may be on
// their way.
const settleTime = freedPlaceTimeout

// UnmetDemand returns what waiting tasks lack according to the last offers, in placement order. It returns false until
// the first offers of a subscription have had time to arrive.
func (s *State) UnmetDemand() (groups []pending.UnmetDemand, ok bool) {
	if !s.connected || s.subscribedAt.After(s.now.Add(-settleTime)) {
		return nil, false
	}
	in := s.newPlacementInput()
	in.Waiting = slices.DeleteFunc(in.Waiting, func(w queue.WaitingJob) bool { return s.isRecentlyQueued(&w) })
	in.Known, in.SharedDevices = s.agentsWithLeftovers(), s.sharedDevicesOf
	offers := slices.DeleteFunc(s.offers.heldOffers(), func(o *Offer) bool { return s.isClosed(o.Hostname, o.AgentID) })
	return pending.FindUnmetDemand(offers, in, s.planPolicy()), true
}

// agentsWithLeftovers returns the agents without held offers, with what they had free in their last offers as long as
// that is valid.
func (s *State) agentsWithLeftovers() []fit.AgentResources {
	offered := map[placement.AgentKey]bool{}
	for _, h := range s.offers.offers {
		offered[keyOfOffer(h.Offer)] = true
	}
	all := s.knownAgents(offered, s.roleNames())
	for i := range all {
		if a := &all[i]; s.leftover(placement.KeyOfAgent(a), s.now) == nil {
			pending.ClearFree(a)
		}
	}
	return all
}

// RecentlyQueuedJobs returns the jobs with GPUs that UnmetDemand leaves out because a task waits for less than
// settleTime.
func (s *State) RecentlyQueuedJobs() (names []string) {
	in := s.newPlacementInput()
	for i := range in.Waiting {
		if w := &in.Waiting[i]; w.Spec.Request.GPUs > 0 && s.isRecentlyQueued(w) {
			names = append(names, w.Spec.Name)
		}
	}
	return names
}

func (s *State) isRecentlyQueued(w *queue.WaitingJob) bool {
	var last time.Time
	for _, t := range w.Tasks {
		if since := s.tasks[t.ID].get().WaitingSince(); since.After(last) {
			last = since
		}
	}
	return last.After(s.now.Add(-settleTime))
}
