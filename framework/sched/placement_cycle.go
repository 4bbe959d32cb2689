package sched

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// placeWaiting makes a plan for the waiting tasks and the held offers, and carries it out. Offers that a waiting job
// could use with more resources are held for a while, so that the offers of several agents are there together when the
// last one arrives that a gang needs.
func (s *State) placeWaiting() []Operation {
	// 1. Nothing to do unless something has changed since the last plan, or a held offer must be answered.
	overdue := s.offers.hasOverdueOffer(s.now, s.cfg.HoldOffers)
	if !s.connected || !s.offers.stale && !overdue {
		return nil
	}
	s.offers.stale = false

	// 2. Decline the offers of agents that get no tasks. Without any other offers, a plan can only preempt.
	ops := s.declineClosed()
	offers := len(s.offers.offers)
	s.queueCache.evictStale()
	reclaims, lowers := s.cfg.Policy.Reclaims(), len(s.budgets.lowered) > 0
	isPreemptible := func(j cachedJob) bool { return j.Spec.Preemptible || reclaims || lowers }
	if offers == 0 && !slices.ContainsFunc(s.queueCache.queuedJobs(&s.jobTable), isPreemptible) {
		return ops
	}

	// 3. Collect what waits and what runs.
	in := s.fillPlacementInput(&s.queueCache.buffers)
	if offers == 0 && !hasPreemptible(&in) && (!reclaims || len(in.Waiting) == 0) {
		return ops
	}

	// 4. Make the plan.
	policy := s.planPolicy()
	policy.Fit.Typical = s.taskMix.mostFrequent()
	agents := placement.CachedAgents{
		Cluster:    s.agentCache.buildCluster(s.now, &s.agentTable, s.roleNames(), &s.offers, &policy),
		LeftoverOf: func(a *fit.AgentResources) fit.TaskResources { return s.leftoverOf(a, s.now) },
		Buffers:    &s.agentCache.buffers,
	}
	if reclaims {
		agents.NewestOffers = s.newestOffers()
	}
	agents.KeepsOffers = !overdue && offers <= maxHeldOffers
	s.planCount++
	plan := placement.MakePlan(agents, &in, &policy)

	// 5. Carry it out.
	return append(ops, s.carryOut(&plan)...)
}

// declineClosed declines the offers of agents that are cordoned or lost their last launches.
func (s *State) declineClosed() []Operation {
	if len(s.cordons) == 0 && len(s.launchLosses) == 0 {
		return nil
	}
	var declined []DeclinedOffer
	for id, h := range s.offers.offers {
		if c, ok := FindCordon(s.cordons, h.Hostname, h.AgentID); ok {
			declined = append(declined, DeclinedOffer{
				OfferID:  id,
				Reason:   "its agent is cordoned: " + c.Reason,
				Category: placement.DeclineCordoned,
				Refuse:   placement.RefuseLong,
			})
		} else if pause, why := s.launchPause(h.AgentID, s.now); pause > 0 {
			declined = append(declined, DeclinedOffer{OfferID: id, Reason: why, Category: placement.DeclineLostLaunches, Refuse: pause})
		}
	}
	return s.declineOffers(declined)
}

// carryOut records a plan and returns its operations. It declines the offers that no job can use and, when one has been
// held for long enough, all held offers. Since they are refused for less time than they are held, all of them are
// there together between two such declines. If each were declined by itself, the offers that a gang needs together
// could alternate forever.
func (s *State) carryOut(plan *placement.Plan) (ops []Operation) {
	s.setWaitTimes(plan.Accept)
	for i := range plan.Accept {
		ops = append(ops, s.recordLaunches(&plan.Accept[i]))
	}
	s.reservations, s.blockedClaims = plan.Reservations, plan.BlockedClaims
	tooMany := len(s.offers.offers) > maxHeldOffers
	isOverdue := func(d DeclinedOffer) bool {
		h := s.offers.offers[d.OfferID]
		return h.isOverdue(s.now, s.cfg.HoldOffers)
	}
	var held []DeclinedOffer
	if tooMany || slices.ContainsFunc(plan.Hold, isOverdue) {
		held = plan.Hold
	}
	if !tooMany && s.cfg.HoldOffers > 0 {
		for i := range held {
			held[i].Refuse = placement.RefuseHeld
		}
	}
	ops = append(ops, s.declineOffers(plan.Decline, held)...)
	for _, v := range plan.Preempt {
		message := "makes room for " + v.ForJob.Name
		if v.DeservedBy != "" {
			message += fmt.Sprintf(": role %s %s", v.DeservedBy, v.Claim)
		}
		ops = append(ops, s.requestEnd(s.tasks[v.TaskID], job.KillByPreemption, v.ForJob.Name, message)...)
	}
	s.recordReturns(plan.Returns)
	s.reservationReasons = map[job.RunID]placement.PendingReason{}
	for _, r := range plan.Unplaced {
		switch r.BlockedBy {
		case placement.BlockedByReservation, placement.BlockedByReclaim:
			s.reservationReasons[r.Run] = r
		case placement.BlockedByQuota:
			j, _ := s.jobs.FindRun(r.Run)
			s.quotaBlockedRoles[j.Spec.Role] = true
			s.notifyQuota(j, r.Text())
		}
	}
	return ops
}

// setWaitTimes sets how long only a place was missing for each task. Tasks of a gang wait from when the last of them
// was ready.
func (s *State) setWaitTimes(accepted []placement.AgentLaunches) {
	gangs := map[*job.Job]time.Time{}
	for i := range accepted {
		for l := range accepted[i].Launches {
			launch := &accepted[i].Launches[l]
			ref := s.tasks[launch.TaskID]
			since, known := gangs[ref.job]
			switch {
			case !ref.job.Spec.Gang:
				since = ref.get().WaitingSince()
			case !known:
				_, since = pending.CountReady(s.now, ref.job, false, nil)
				gangs[ref.job] = since
			}
			launch.Waited = max(s.now.Sub(since), 0)
		}
	}
}

// recordLaunches records the intent to launch tasks, and removes the offers and what the tasks take of them. The caller
// journals it before the ACCEPT is sent.
func (s *State) recordLaunches(a *placement.AgentLaunches) Operation {
	for _, id := range a.OfferIDs {
		if since := s.offers.offers[id].since; since.After(a.LastOfferAt) {
			a.LastOfferAt = since
		}
	}
	s.removeOffers(a.OfferIDs)
	for i := range a.Launches {
		l := &a.Launches[i]
		s.subtractLaunch(placement.AgentKey{ID: a.AgentID, Role: a.Role}, l)
		ref := s.tasks[l.TaskID]
		t := s.changeTask(ref)
		permissions := s.permissionsFor(ref.job.Spec.Role)
		l.Spec, l.FetchHosts = permissions.ResolveVolumes(l.Spec, ref.job.Spec.Role), permissions.FetchHosts()
		l.Run, l.Attempt = ref.job.RunID().Run, t.Attempt
		types, products := gpu.CountTypes(l.GPUTypes), l.GPUTypes
		if maps.Equal(types, products) {
			products = nil // no more is known than the types
		}
		s.submittedParts.InternCounts(&types)
		s.submittedParts.InternCounts(&products)
		t.NotBefore = time.Time{}
		t.AgentID, t.Hostname, t.AgentURL = a.AgentID, a.Hostname, a.AgentURL
		t.DeviceIDs, t.GPUTypes, t.Products, t.Shares, t.Ports = l.DeviceIDs, types, products, l.Shares, l.Ports
		s.deadlines[t.ID] = &taskDeadlines{confirmBy: s.now.Add(s.cfg.LaunchTimeout)}
		t.Launched = s.now
		s.runTimes.noteLaunch(ref.job, s.now)
		s.transition(ref, job.Launching, "")
	}
	return AcceptOffers(*a)
}
