package placement

import (
	"slices"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// placeClaims places the tasks that are inside what their role deserves, before any task that would borrow. For those
// that find no place it reclaims GPUs. It returns the other tasks, which are placed after them.
func (pl *planner) placeClaims(agents CachedAgents, in *PlanInput) []queue.WaitingJob {
	ownInput := *in
	pl.backfill.in = &ownInput
	fitPolicy := pl.policy.Fit
	fitPolicy.Name = "binpack"
	pl.reclaim = &reclaimer{
		in:           &ownInput,
		entitled:     pl.policy.PursuesEntitlements(),
		overhead:     pl.policy.Overhead,
		cluster:      pl.alloc.Cluster,
		alloc:        pl.alloc,
		returns:      &pl.returns,
		launches:     pl.launches,
		leftoverOf:   agents.LeftoverOf,
		newestOffers: agents.NewestOffers,
		fitPolicy:    fitPolicy,
		endings:      map[string][]*queue.RunningTask{},
		needs:        map[string]*remainder{},
		reserved:     map[AgentKey]*fit.TaskResources{},
		failed:       map[claimKey]bool{},
		blocked:      map[job.RunID]string{},
		hostClaims:   map[string]bool{},
		awaiting:     map[string]job.RunID{},
	}
	held, rest, next := map[int32]bool{}, in.Waiting, NextJobs(in.Reservations)
	for level := range pl.alloc.Usage.DeservedLevels() {
		pl.reclaim.level = level
		placed := map[job.RunID][]string{}
		order := queue.NewClaimOrder(in.Now, rest, pl.policy.Roles, next, pl.alloc.Usage, level)
		for j, request, ok := order.Next(); ok; j, request, ok = order.Next() {
			if left := pl.placeClaim(j, request, held, placed); len(left) > 0 {
				order.Postpone(left)
			}
		}
		rest = order.Rest()
		for i := range rest {
			if own := placed[rest[i].RunID()]; len(own) > 0 && rest[i].Spec.Group == "" {
				rest[i].PeerAgents = slices.Concat(rest[i].PeerAgents, own)
			}
		}
	}
	return rest
}

// placeClaim gives the tasks of a claim places, or reserves GPUs for them. It returns the tasks for which it could do
// neither. held are the demand numbers whose offers are held already. placed gets the agents of placed tasks, by job.
func (pl *planner) placeClaim(j *queue.WaitingJob, request gpu.Request, held map[int32]bool, placed map[job.RunID][]string) []queue.WaitingTask {
	role := j.Spec.Role
	if _, waits := pl.strictHeads[role]; waits {
		return j.Tasks
	}
	d := j.TaskDemand(pl.policy.Overhead, pl.agents, pl.groupAgents[queue.GroupKeyOf(j.Spec)]...)
	d.Request, d.AvoidReserved = request, pl.backfill.claim != ""
	if !pl.hasMaintenance {
		d.RunTime = 0
	}

	// 1. Place them on the role's own offers.
	got := pl.alloc.PlaceJob(j, &d)
	if len(got.Places) == len(j.Tasks) || !j.Spec.Gang {
		pl.launchTasks(j, &got)
		for _, p := range got.Places {
			placed[j.RunID()] = append(placed[j.RunID()], pl.agents[p.Agent].ID)
		}
	} else {
		pl.alloc.UndoJob(j, &d, &got)
	}
	left := j.Tasks[len(got.Places):]

	// 2. Reserve what is free of other roles, what ending tasks free, or what other roles borrow, within the quota.
	if len(left) == 0 || pl.alloc.Usage.RunningJobsLimit(j.Spec) != nil {
		return left
	}
	d.Request = request
	places := pl.reclaim.reclaimWithinLimits(j, &d, len(left))
	if len(places) == 0 {
		if !j.AwaitsOffers {
			pl.reclaim.blocked[j.RunID()] = pl.reclaim.explainBlocked(j)
		}
		return left
	}
	ending, ends := pl.reclaim.countEndings(j, places)
	if len(ending) > 0 && pl.reclaim.awaiting[role].Name == "" {
		pl.reclaim.awaiting[role] = j.RunID()
	}
	pl.backfill.claim, pl.backfill.claimed = pl.reclaim.firstClaim, pl.reclaim.firstClaimed
	pl.leaveWaiting(j, len(places), pl.reclaim.explainClaim(j, len(places), ending, ends))
	if pl.policy.isStrict(role) {
		pl.strictHeads[role] = strictRoleCause(j)
	}
	if j.DemandNumber == 0 || !held[j.DemandNumber] {
		held[j.DemandNumber] = true
		pl.blocked = append(pl.blocked, d)
	}
	return left[len(places):]
}

// strictRoleCause is why jobs wait behind one in a strict role.
func strictRoleCause(head *queue.WaitingJob) PendingCause {
	return PendingCause{BlockedBy: BlockedByReservation, Needs: "its turn", Available: head.Spec.Name + " goes first, and its role allows no backfill"}
}
