package placement

import (
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
)

// CachedAgents are agents that the caller keeps from plan to plan.
type CachedAgents struct {
	// Cluster has what the offers have free. The plan changes it.
	Cluster *PartitionedCluster
	// LeftoverOf returns what agents without offers probably have free. Reservations count on it, launches do not.
	LeftoverOf LeftoverFunc
	// NewestOffers are the roles of the newest offers of agents, by agent id. It is only read if roles deserve GPUs.
	NewestOffers map[string]string
	// KeepsOffers reports that the caller declines none of the offers that the plan holds, so that no reasons are computed.
	KeepsOffers bool
	// Buffers is memory of the last plan, which becomes invalid.
	Buffers *PlanBuffers
}

// MakePlan answers every offer exactly once: accepted, held or declined. It changes only agents.Cluster and
// agents.Buffers; equal inputs give equal plans in any order of offers. The plan is valid until the next one with the
// same PlanBuffers.
func MakePlan(agents CachedAgents, in *PlanInput, p *Policy) Plan {
	pl := newPlanner(agents, in, p)
	waiting := in.Waiting
	if pl.alloc.Usage.Reclaims() {
		waiting = pl.placeClaims(agents, in)
	}
	order := queue.NewJobOrder(in.Now, waiting, p.Roles, pl.alloc.Usage)
	for j, ok := order.Next(); ok; j, ok = order.Next() {
		if left, peers := pl.placeJob(j, order.Portion(j)); len(left) > 0 {
			order.Continue(left, peers)
		}
	}
	pl.answerOffers()
	b, plan := agents.Buffers, pl.plan
	b.unplaced, b.decline, b.hold = plan.Unplaced, plan.Decline, plan.Hold
	return plan
}

// planner is a plan in progress. Its maps grow job by job, in the order in which jobs are placed.
type planner struct {
	// policy is the one of the caller. It is not changed.
	policy *Policy
	// agents are the agents of the cluster, by index.
	agents []fit.AgentResources
	// keepsOffers copies CachedAgents.KeepsOffers.
	keepsOffers bool
	// alloc gives places within quotas. It changes the cluster and the usage of roles.
	alloc *Allocator
	// backfill reserves resources for the head of each role.
	backfill *backfiller
	// returns are the offers to be returned for other roles.
	returns offerReturns
	// groupAgents are the ids of agents that received tasks in this plan, one entry a task, by the group of their jobs.
	groupAgents map[queue.GroupKey][]string
	// launches are the tasks to start, by the index of their agent.
	launches map[int][]TaskLaunch
	// failed are the causes for kinds of jobs that found no place; jobs of the same kind find none either.
	failed map[placementKey]PendingCause
	// lastFailed is the entry of failed that was read last: jobs of one kind mostly follow each other.
	lastFailed failedPlacement
	// numbers are the demand numbers in the keys of failed. Those of the input are used, and extended, if it has any.
	numbers queue.DemandNumbers
	// blocked has a demand of each kind that found no place; an offer that one of them could use is held.
	blocked []fit.Demand
	// refusals return for each of blocked what an agent lacks, nil until it is asked for.
	refusals []func(i int) string
	// strictHeads are the causes for all later jobs of strict roles that have a waiting job, by role.
	strictHeads map[string]PendingCause
	// hasMaintenance reports that maintenance is scheduled: only then the agents that a task fits depend on its run time.
	hasMaintenance bool
	// reclaim finds GPUs for claims; nil unless roles deserve GPUs.
	reclaim *reclaimer
	plan    Plan
}

func newPlanner(agents CachedAgents, in *PlanInput, p *Policy) *planner {
	c, b, alloc := agents.Cluster, agents.Buffers, NewAllocator(agents.Cluster, in, p)
	pl := &planner{
		policy: p, agents: c.agents, keepsOffers: agents.KeepsOffers, alloc: alloc, groupAgents: map[queue.GroupKey][]string{},
		returns:  offerReturns{alloc: alloc, shares: queue.NewRoleShares(p.Roles, alloc.Usage), futile: in.FutileReturns, byAgent: map[int]offerReturn{}},
		launches: map[int][]TaskLaunch{}, failed: map[placementKey]PendingCause{}, numbers: in.DemandNumbers, strictHeads: map[string]PendingCause{},
		hasMaintenance: c.hasMaintenance(), plan: Plan{Unplaced: b.unplaced[:0], Decline: b.decline[:0], Hold: b.hold[:0]},
	}
	pl.backfill = &backfiller{
		forecaster: &forecaster{
			in: in, overhead: p.Overhead, cluster: c, leftoverOf: agents.LeftoverOf, buffers: b,
			taskEnds: map[string]*roleTaskEnds{}, leftovers: map[string][]agentLeftover{},
		},
		heads: map[string]*reservation{}, attempts: map[string]int{}, awaiting: map[string]*awaitingTasks{},
	}
	if pl.numbers == nil {
		pl.numbers = queue.DemandNumbers{}
	}
	return pl
}

// failedPlacement is a kind of jobs that found no place, with the cause.
type failedPlacement struct {
	key     placementKey
	cause   PendingCause
	isKnown bool
}

// findFailed returns why jobs of a kind found no place, false if none was tried or it found one.
func (pl *planner) findFailed(key placementKey) (PendingCause, bool) {
	last := &pl.lastFailed
	if last.isKnown && last.key == key {
		return last.cause, true
	}
	cause, failed := pl.failed[key]
	if failed {
		*last = failedPlacement{key, cause, true}
	}
	return cause, failed
}

// placeJob gives the first tasks of one job their places, as many as portion, or records why they wait. If it finds them
// all, it returns the tasks that are left, and the agents of the others if constraints compare them.
func (pl *planner) placeJob(j *queue.WaitingJob, portion int) (left []queue.WaitingTask, peers []string) {
	// 1. In a strict role no job starts before an earlier one that waits.
	if cause, waits := pl.strictHeads[j.Spec.Role]; waits {
		pl.leaveWaiting(j, len(j.Tasks), cause)
		return nil, nil
	}

	// 2. A job of the same kind found no place in this plan: this one finds none either.
	key := placementKey{demand: j.DemandNumber, runs: j.Spec.ExpectedRunTime(), guaranteed: j.Spec.Guaranteed}
	if key.demand == 0 || len(j.ImageExclusions) > 0 {
		d := j.TaskDemand(pl.policy.Overhead, nil)
		key.demand = pl.numbers.NumberOf(queue.DemandKey(&d, j.Spec))
	}
	if pl.alloc.Usage.LimitsUsers() {
		key.user = j.Spec.Owner
	}
	key.avoidReserved = pl.backfill.mustAvoidReserved(j)
	if !pl.hasMaintenance {
		key.runs = 0
	}
	if cause, failed := pl.findFailed(key); failed {
		pl.leaveWaiting(j, len(j.Tasks), cause)
		if pl.backfill.mayPreemptBehindHead(j, key.demand) {
			d := j.TaskDemand(pl.policy.Overhead, nil)
			d.RunTime = key.runs
			pl.preemptBehindHead(j, &d, len(j.Tasks))
		} else {
			pl.backfill.endAwaiting(j.Spec.Role)
		}
		return nil, nil
	}

	// 3. Place as many tasks as the agents and the role's quota allow, those of guaranteed jobs within what it deserves.
	request, n := pl.alloc.Usage.RestrictGuaranteed(j.Spec, len(j.Tasks))
	if n < len(j.Tasks) {
		pl.leaveWaiting(j, len(j.Tasks)-n, QuotaCause(pl.alloc.Usage.ExplainGuaranteed(j.Spec, len(j.Tasks)-n)))
		if n == 0 {
			return nil, nil
		}
		j = j.WithTasks(n)
	}
	if pl.reclaim != nil {
		allowed, cause := pl.reclaim.limitBorrowing(j, len(j.Tasks))
		if allowed < len(j.Tasks) {
			if pl.reclaim.awaiting[j.Spec.Role] != j.RunID() { // else its claim has a reason already
				pl.leaveWaiting(j, len(j.Tasks)-allowed, cause)
			}
			if allowed == 0 {
				return nil, nil
			}
			j = j.WithTasks(allowed)
		}
	}
	if limit := pl.limitBehindHead(j, key.avoidReserved); limit != nil {
		pl.leaveWaiting(j, len(j.Tasks), PendingCause{
			BlockedBy: BlockedByReservation, Needs: "its turn",
			Available: fmt.Sprintf("%s goes first, and user %s may run %d %s in role %s",
				pl.backfill.heads[j.Spec.Role].spec.Name, limit.User, limit.Max, gpu.Plural(limit.Max, "job"), limit.Role),
		})
		return nil, nil
	}
	d := j.TaskDemand(pl.policy.Overhead, pl.agents, pl.groupAgents[queue.GroupKeyOf(j.Spec)]...)
	d.Request = request
	d.RunTime, d.AvoidReserved = key.runs, key.avoidReserved
	part := j.WithTasks(min(portion, len(j.Tasks)))
	got := pl.alloc.PlaceJob(part, &d)

	// 4. Start what fits. A gang starts together or not at all.
	missing := len(part.Tasks) - len(got.Places)
	if missing == 0 || !j.Spec.Gang {
		pl.launchTasks(j, &got)
	}
	if missing == 0 {
		return j.Tasks[len(part.Tasks):], pl.peersOf(j, &got)
	}

	// 5. Roles with more than their share return offers that the other tasks can use.
	claimed := 0
	if !j.Spec.Gang && !got.AtQuota {
		claimed = pl.returns.claimOffers(part, &d, missing)
	}
	if claimed == missing {
		pl.leaveWaiting(j, claimed, PendingCause{Needs: "GPUs of other roles' offers", Available: "roles with more than their share return them"})
		return j.Tasks[len(part.Tasks):], pl.peersOf(j, &got)
	}
	pl.blockJob(j, key, &d, &got, claimed)
	return nil, nil
}

// peersOf returns the agents of the places if later tasks of the job are compared with them. Those of groups are in
// groupAgents.
func (pl *planner) peersOf(j *queue.WaitingJob, got *JobPlacements) (ids []string) {
	if j.Spec.Group != "" || !j.DependsOnPeers() {
		return nil
	}
	for i := range got.Places {
		ids = append(ids, pl.agents[got.Places[i].Agent].ID)
	}
	return ids
}

// limitBehindHead returns the limit on running jobs that forbids a job to start because the head of its role, which is of
// the same user, would then not be permitted to start. Jobs that do not delay the head are not stopped.
func (pl *planner) limitBehindHead(j *queue.WaitingJob, delaysHead bool) *quota.Limit {
	usage, head := pl.alloc.Usage, pl.backfill.heads[j.Spec.Role]
	if !delaysHead || head == nil || head.spec.Owner != j.Spec.Owner || usage.RunningJobsLimit(j.Spec) != nil || !usage.AddRunningJob(head.spec) {
		return nil
	}
	defer usage.RemoveRunningJob(head.spec)
	return usage.RunningJobsLimit(j.Spec)
}

// launchTasks adds the launches of the job's first tasks to the plan, one for each place.
func (pl *planner) launchTasks(j *queue.WaitingJob, got *JobPlacements) {
	peers := gangPeers(j, pl.agents, got.Places)
	values := func(int) map[string]string { return nil }
	if j.Spec.Matrix != nil && len(got.Places) > 0 {
		_, values = j.Spec.Matrix.Combinations()
	}
	for i := range got.Places {
		p, t := &got.Places[i], j.Tasks[i]
		a := &pl.agents[p.Agent]
		launch := TaskLaunch{
			TaskID: t.ID, Index: t.Index, Spec: j.Spec, Overhead: pl.policy.Overhead, Values: values(t.Index),
			DeviceIDs: deviceIDsOf(p), GPUTypes: got.GPUTypes[i], Shares: p.Shares, Ports: p.Ports,
			Host: a.Hostname, Peers: peers,
		}
		pl.launches[p.Agent] = append(pl.launches[p.Agent], launch)
		if pl.reclaim != nil {
			pl.reclaim.takeLaunch(p.Agent, &launch)
			if j.Spec.Guaranteed {
				pl.alloc.Usage.AddGuaranteed(j.Spec, 1, launch.GPUTypes, launch.Shares)
			}
		}
		if j.Spec.Group != "" {
			group := queue.GroupKeyOf(j.Spec)
			pl.groupAgents[group] = append(pl.groupAgents[group], a.ID)
		}
	}
}

// blockJob records why tasks of the job found no place, and reserves resources for them. got has the places of its
// other tasks, which a gang gives back. claimed tasks wait for offers that other roles return.
func (pl *planner) blockJob(j *queue.WaitingJob, key placementKey, d *fit.Demand, got *JobPlacements, claimed int) {
	role, tasks := j.Spec.Role, len(j.Tasks)
	missing := tasks - len(got.Places)
	if pl.policy.isStrict(role) && !(got.AtQuota && (got.Limit.User != "" || got.Limit.Budget != nil)) { // a user at a limit does not stop the others
		pl.strictHeads[role] = strictRoleCause(j)
	}

	// 1. A job that exceeds its quota even alone never starts as a whole: the quota blocks it, and no resources are
	// reserved for it.
	if !got.AtQuota {
		if limit := pl.alloc.Usage.ImpossibleLimit(j.Spec, tasks); limit != nil {
			got.Limit, got.AtQuota = limit, true
		}
	}

	// 2. Explain the missing tasks: the free resources are reserved for the role's head, or the agents have no room. The
	// places of an incomplete gang count as taken, unless another type of GPU may hold all of it.
	var cause PendingCause
	returned := demandOfPlacedType(*d, got)
	if !got.AtQuota {
		n := 1
		if j.Spec.Gang {
			n = missing
		}
		if d.Request.NeedsSameType() {
			pl.alloc.UndoJob(j, d, got)
			n = tasks
		}
		var reserved bool
		if cause, reserved = pl.backfill.explainReservation(j, d, n); !reserved {
			s := pl.explainShortage(d, n)
			cause = PendingCause{Needs: s.Missing, Available: s.Found}
		}
		cause.Available += got.Limit.ExcludedTypeNote()
		if pl.alloc.Usage.ExcludesPresentGPUs(got.Limit, &j.Spec.Request, &d.Request) {
			why, _ := pl.alloc.Usage.Explain(j.Spec, tasks, got.Limit)
			cause = QuotaCause(why)
		}
	}
	waiting := missing
	if j.Spec.Gang {
		pl.alloc.UndoJob(j, d, got)
		waiting = tasks
	}

	// 3. At the quota, what is left of it is reserved for this job.
	if got.AtQuota {
		pl.leaveWaiting(j, waiting, QuotaCause(pl.alloc.Usage.KeepRest(j.Spec, tasks, got.Limit)))
		return
	}
	pl.leaveWaiting(j, waiting, cause)

	// 4. Roles with more than their share return offers that a gang can use.
	need := missing - claimed
	if j.Spec.Gang {
		need = tasks
		claimed = pl.returns.claimOffers(j, &returned, missing)
	}
	left := missing - claimed
	if _, allowed, _ := pl.alloc.Usage.Restrict(quota.UserOf(j.Spec), j.Spec.Request); !j.Spec.Gang {
		left = min(left, allowed)
	}

	// 5. For the rest, reserve resources that running tasks will free, and preempt tasks if that helps.
	if left > 0 {
		if !j.Spec.Gang {
			need = left
		}
		if pl.backfill.mayPreemptBehindHead(j, key.demand) {
			pl.preemptBehindHead(j, d, need)
		} else {
			pl.backfill.reserveOrPreempt(j, d, key.demand, need)
		}
	}

	// 6. Remember the kind. A smaller gang, or a job with other peers, may still fit.
	pl.blocked = append(pl.blocked, *d)
	if !j.Spec.Gang && !j.DependsOnPeers() {
		pl.failed[key] = cause
	}
}

// preemptBehindHead preempts tasks for n tasks of a job that is not the head of its role, if quotas permit them together
// with the jobs before it that wait for ending tasks. Jobs that only start within what their role deserves, and those of
// users with limits, wait until the jobs before them have started and count.
func (pl *planner) preemptBehindHead(j *queue.WaitingJob, d *fit.Demand, n int) {
	role := j.Spec.Role
	_, allowed, _ := pl.alloc.Usage.Restrict(quota.UserOf(j.Spec), j.Spec.Request)
	if n+pl.backfill.awaiting[role].tasks > allowed || j.Spec.Guaranteed || pl.alloc.Usage.LimitsUsers() {
		pl.backfill.endAwaiting(role)
		return
	}
	pl.backfill.preemptBehindHead(j, d, n)
}

// explainShortage returns what agents lack for one task of the demand, or for n tasks that need GPUs of the same type.
func (pl *planner) explainShortage(d *fit.Demand, n int) fit.Shortage {
	agents := pl.alloc.Cluster.partition(d.Role)
	if d.Request.NeedsSameType() {
		return agents.ExplainGang(d, n)
	}
	return agents.ExplainShortage(d)
}

// leaveWaiting records why tasks of the job found no place.
func (pl *planner) leaveWaiting(j *queue.WaitingJob, waiting int, cause PendingCause) {
	pl.plan.Unplaced = append(pl.plan.Unplaced, PendingReason{Run: j.RunID(), Missing: waiting, Tasks: j.Spec.Tasks, PendingCause: cause})
}

// placementKey is equal for jobs that find a place on the same agents in this plan.
type placementKey struct {
	// demand is the number of the job's demand key.
	demand int32
	// runs is the expected run time, 0 if it does not matter, because no maintenance is scheduled, or is unknown.
	runs time.Duration
	// user is the owner of the job, "" if no limits of users exclude GPU types.
	user string
	// avoidReserved reports that the job could delay the head of its role.
	avoidReserved bool
	// guaranteed jobs may hold only the GPU types that their role deserves.
	guaranteed bool
}

// answerOffers accepts the offers of agents that receive tasks, and declines or holds all others.
func (pl *planner) answerOffers() {
	pl.plan.Preempt, pl.plan.Reservations = pl.backfill.victims, pl.backfill.reservations()
	if pl.reclaim != nil {
		pl.plan.Preempt = slices.Concat(pl.reclaim.ends, pl.backfill.victims)
		pl.plan.BlockedClaims = pl.reclaim.blocked
	}
	pl.returns.decline(&pl.plan, pl.launches, RefuseSoon)
	suitable := make([]func(i int) bool, len(pl.blocked))
	for b := range pl.blocked {
		suitable[b] = pl.alloc.Cluster.suitableFor(&pl.blocked[b])
	}
	for i := range pl.agents {
		a := &pl.agents[i]
		switch {
		case len(pl.launches[i]) > 0:
			pl.plan.Accept = append(pl.plan.Accept, AgentLaunches{
				AgentID: a.ID, Hostname: a.Hostname, AgentURL: a.URL, Role: a.Role,
				OfferIDs: a.Offers, Launches: pl.launches[i], Refuse: RefuseSoon,
			})
		case len(a.Offers) > 0 && pl.returns.byAgent[i].reason == "":
			pl.declineAgent(i, slices.IndexFunc(suitable, func(isSuitable func(i int) bool) bool { return isSuitable(i) }))
		}
	}
}

// explainRefusal returns why an agent does not suffice for a blocked job.
func (pl *planner) explainRefusal(i, blocked int) string {
	if pl.refusals == nil {
		pl.refusals = make([]func(i int) string, len(pl.blocked))
	}
	if pl.refusals[blocked] == nil {
		pl.refusals[blocked] = pl.alloc.Cluster.refusalReasons(&pl.blocked[blocked])
	}
	return pl.refusals[blocked](i)
}

// isWithoutGPUs reports whether an agent's offers have no GPUs and no parts of GPUs.
func isWithoutGPUs(a *fit.AgentResources) bool {
	return a.GPUs == 0 && len(a.DeviceIDs) == 0 && len(a.Shared) == 0
}

// declineAgent declines the offers of an agent, or holds them if a blocked job could use them with more resources: blocked
// is the index of its demand, -1 if no job could. Offers without GPUs are not held for a job that needs some.
func (pl *planner) declineAgent(i, blocked int) {
	a := &pl.agents[i]
	list, o := &pl.plan.Decline, DeclinedOffer{Reason: "no task waits", Category: DeclineIdle, Refuse: RefuseLong}
	switch {
	case blocked >= 0:
		list, o = &pl.plan.Hold, DeclinedOffer{Category: DeclineHeld, Refuse: RefuseSoon}
		if isWithoutGPUs(a) && pl.blocked[blocked].Request.GPUs > 0 {
			// Mesos counts offers as the role's. With the CPUs and memory that tasks leave of all agents in its offers, it would
			// get no GPUs by dominant resource fairness.
			list = &pl.plan.Decline
		}
		if !pl.keepsOffers || list == &pl.plan.Decline {
			o.Reason = pl.explainRefusal(i, blocked)
		}
	case len(pl.blocked) > 0 || len(pl.plan.Unplaced) > 0:
		o.Reason, o.Category = "no task waits for "+describeGPUs(a), DeclineUnwanted
	}
	for _, o.OfferID = range a.Offers {
		*list = append(*list, o)
	}
}
