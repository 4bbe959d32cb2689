// Package sched decides which task runs on which agent and with which
// devices, and what to say to Mesos after each event. It is a pure function
// of what it is told: it performs no I/O, reads no clock and writes no log.
// Which agent a task fits on, and how well, is the part of package fit.
package sched

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Policy says where tasks go and how roles compete.
type Policy struct {
	// Fit ranks the agents.
	Fit fit.PlacementPolicy
	// Roles are those with a weight or a quota.
	Roles []Role
	// Overhead is what each task's executor needs beside the task.
	Overhead Amount
	// RefuseSoon keeps an offer away that a waiting job might use once more
	// is free on its agent; RefuseLong one that nothing waiting can use.
	RefuseSoon, RefuseLong time.Duration
	// Permissions is what jobs may have of their agents' own, RolePermissions what those
	// of some roles may have instead.
	Permissions     HostPermissions
	RolePermissions []RolePermissions
}

// Plan answers every offer once and every waiting task.
type Plan struct {
	// Accept has one entry an agent and role that gets tasks, in their order.
	Accept []AcceptOffers
	// Decline has the offers of no use, Hold those that a waiting job could
	// use once more is free: each by offer id.
	Decline, Hold []DeclinedOffer
	// ReturnedAgents are agents whose offers another role should have.
	ReturnedAgents []string
	// Preempt are tasks whose place a job of higher priority needs.
	Preempt []PreemptionVictim
	// Unplaced says why each job that still waits does, in queue order.
	Unplaced []PendingReason
}

// TaskLaunch is one task to start.
type TaskLaunch struct {
	TaskID string
	Index  int
	// Spec is shared with the queue: nobody changes it.
	Spec *job.Spec
	// DeviceIDs are the GPUs it gets, where the agent names devices, and
	// GPUTypes how many of each type.
	DeviceIDs []string
	GPUTypes  map[string]int
	// Shares are what it gets of shared devices: DeviceIDs names those too,
	// GPUTypes leaves them out.
	Shares []gpu.DeviceShare
	// Overhead is for its executor.
	Overhead Amount
	// Ports are the host ports it gets, Env what it is told beside its Spec's
	// variables: its rank and peers, its ports.
	Ports []int
	Env   map[string]string
	// Values are its combination of its job's matrix.
	Values map[string]string
	// Waited is for how long it has waited for a place. Place does not know.
	Waited time.Duration
}

// DeclinedOffer is an offer that no task takes now.
type DeclinedOffer struct {
	OfferID string
	Reason  string
	// Category is the kind of the reason.
	Category DeclineReason
	Refuse   time.Duration
}

// DeclineReason is why an offer is declined, of few words.
type DeclineReason string

const (
	// DeclineIdle: no task waits. Unwanted: none waits for what it has.
	DeclineIdle     DeclineReason = "idle"
	DeclineUnwanted DeclineReason = "unwanted"
	// DeclineHeld: a task could use it once more is free, but not for as long as
	// offers are held.
	DeclineHeld DeclineReason = "held"
	// DeclineReturnedToRole: another role is to have it.
	DeclineReturnedToRole DeclineReason = "yielded"
	// DeclineCordoned: its agent takes no tasks.
	DeclineCordoned DeclineReason = "cordoned"
)

// MakePlan answers every offer exactly once: accepted, held or declined. It does
// not modify its arguments; equal inputs give equal plans in any offer order.
// A State makes the same plan on agents that it keeps.
func MakePlan(offers []Offer, q PlacementQueue, p Policy) Plan {
	return newPlannerForOffers(offers, &q, &p).makePlan()
}

func newPlannerForOffers(offers []Offer, q *PlacementQueue, p *Policy) *planner {
	agents := fit.JoinOffers(offers)
	offered := map[agentKey]bool{}
	for i := range agents {
		a := &agents[i]
		offered[agentKey{a.ID, a.Role}], a.AllShared = true, q.AllShared[a.ID]
	}
	left := map[agentKey]fit.TaskResources{}
	for _, a := range q.Known {
		if key := (agentKey{a.ID, a.Role}); !offered[key] {
			left[key] = allFree(&a)
			agents = append(agents, withoutFree(a))
		}
	}
	had := func(a *fit.AgentResources) fit.TaskResources { return left[agentKey{a.ID, a.Role}] }
	return newPlanner(newPartitionedCluster(agents, p, q.Now), &planBuffers{}, had, q, p)
}

// makePlan makes the plan.
func (pl *planner) makePlan() Plan {
	for {
		j, ok := pl.order.nextJob()
		if !ok {
			break
		}
		pl.placeJob(j)
	}
	pl.buffers.unplaced = pl.plan.Unplaced
	pl.answerOffers()
	return pl.plan
}

// planner is a plan in the making.
type planner struct {
	queue               *PlacementQueue
	policy              *Policy
	cluster             *partitionedCluster
	agents              []fit.AgentResources
	usage               *quotaTracker
	order               *jobOrder
	launches            map[int][]TaskLaunch // by agent
	blocked             []fit.Demand         // one of each kind
	failed              map[placementKey]pendingCause
	reservations        map[string]*reservation                     // the first blocked job of each role
	strictHeads         map[string]pendingCause                     // strict roles with a job that waits, and why the others do
	reservationAttempts map[string]int                              // jobs of each role for which places ahead were sought
	returnReasons       map[int]string                              // agents claimed for another role, and why
	keepsOffer          func(offerID string) bool                   // offers that are held in any case: nobody asks why; nil: none
	leftoverOf          func(*fit.AgentResources) fit.TaskResources // what agents that offer nothing had free
	groupAgents         map[groupKey][]string                       // agents that this plan gave to tasks of groups
	hasMaintenance      bool                                        // maintenance of an agent is planned
	agentsByID          map[string]*fit.AgentResources
	// taskEnds and leftovers are by role, as far as somebody asked.
	taskEnds      map[string]*taskEnds
	leftovers     map[string][]agentLeftover
	demandNumbers demandNumbers
	buffers       *planBuffers
	plan          Plan
}

// newPlanner begins a plan on a cluster, which it uses up. left tells what an
// agent had free that offers nothing now. The scratch memory is its own
// meanwhile.
func newPlanner(c *partitionedCluster, s *planBuffers, left func(*fit.AgentResources) fit.TaskResources, q *PlacementQueue, p *Policy) *planner {
	pl := &planner{
		buffers: s, taskEnds: map[string]*taskEnds{}, leftovers: map[string][]agentLeftover{},
		leftoverOf: left, reservationAttempts: map[string]int{}, groupAgents: map[groupKey][]string{}, hasMaintenance: c.hasMaintenance(),
		queue: q, policy: p, cluster: c, agents: c.agents, usage: newQuotaTracker(p.Roles, nil),
		launches: map[int][]TaskLaunch{}, failed: map[placementKey]pendingCause{}, reservations: map[string]*reservation{}, strictHeads: map[string]pendingCause{}, returnReasons: map[int]string{},
	}
	if pl.demandNumbers = q.demandNumbers; pl.demandNumbers == nil {
		pl.demandNumbers = demandNumbers{}
	}
	pl.plan.Unplaced = s.unplaced[:0]
	pl.usage.agents = pl.agents
	pl.usage.countTasks(q.Running)
	pl.cluster.avoidPorts(requestedHostPorts(q.Waiting))
	pl.order = newJobOrder(q, p, pl.usage)
	return pl
}

// agentsForPeers are the agents by id, for a job to which it matters where its other
// tasks are.
func (pl *planner) agentsForPeers(j *WaitingJob) map[string]*fit.AgentResources {
	if pl.agentsByID == nil && slices.ContainsFunc(j.Spec.Constraints, job.Constraint.DependsOnPeers) {
		pl.agentsByID = make(map[string]*fit.AgentResources, len(pl.agents))
		for i := range pl.agents {
			pl.agentsByID[pl.agents[i].ID] = &pl.agents[i]
		}
	}
	return pl.agentsByID
}

// placeJob gives the job's tasks their places, all or as many as it may have.
func (pl *planner) placeJob(j *WaitingJob) {
	if pl.isBehindStrictHead(j) {
		return
	}
	key := pl.placementKeyOf(j)
	if why, tried := pl.failed[key]; tried { // what did not fit a moment ago does not fit now
		pl.leaveWaiting(j, len(j.Tasks), why)
		return
	}
	d := j.taskDemand(pl.policy, pl.agentsForPeers(j), pl.groupAgents[groupKeyOf(j.Spec)]...)
	d.RunTime, d.AvoidReserved = key.runs, key.respectReservation
	spots, types, b, quota := pl.fillPlacements(j, &d)
	missing := len(j.Tasks) - len(spots)
	if missing == 0 {
		pl.launchTasks(j, spots, types)
		return
	}
	pl.markStrictHead(j)
	if small := pl.usage.impossibleLimit(j); small != nil && !quota {
		b, quota = small, true // it can never start: places ahead would be kept for nothing
	}
	var why pendingCause
	if !quota {
		why = b.appendTo(pl.explainWaiting(j, &d, missing))
	}
	if j.Spec.Gang {
		pl.undoPlacements(j, &d, spots, types)
		spots = nil
	}
	pl.launchTasks(j, spots, types)
	if quota {
		pl.leaveWaiting(j, missing, pl.blockOnQuota(j, b))
		return
	}
	pl.leaveWaiting(j, missing, why)
	need := len(j.Tasks) - len(spots)
	if _, may, _ := pl.usage.restrictToQuota(j.Spec.Role, j.Spec.Request); !j.Spec.Gang {
		need = min(need, may)
	}
	if left := pl.returnOffersToRole(j, &d, min(need, missing)); left > 0 {
		if !j.Spec.Gang {
			need = left
		}
		pl.reserveForHead(j, &d, need)
	}
	pl.blocked = append(pl.blocked, d)
	if j.Spec.Gang || slices.ContainsFunc(d.Constraints, job.Constraint.DependsOnPeers) {
		return // another of these may fit where this one does not
	}
	pl.failed[key] = why
}

// blockOnQuota says that a quota is in the job's way. Those behind it in its role
// leave what the role may still hold to it.
func (pl *planner) blockOnQuota(j *WaitingJob, b *quotaLimit) pendingCause {
	b.held = pl.usage.limitWithUsage(j.Spec.Role, b).held // as it is without what was given back
	why, never := pl.usage.explainLimit(j, b)
	if !never && pl.usage.milliGPUsToStart(j, b) <= b.limit && b.reservedFor == "" {
		pl.usage.reserveRest(j.Spec.Role, b, j.Spec.Name)
	}
	return why
}

// undoPlacements gives back what fill took.
func (pl *planner) undoPlacements(j *WaitingJob, d *fit.Demand, spots []fit.Placement, types []map[string]int) {
	pl.cluster.undoPlacements(d, spots)
	for i := range types {
		pl.usage.addUsage(j.Spec.Role, types[i], spots[i].Shares, -1)
	}
}

func (pl *planner) leaveWaiting(j *WaitingJob, missing int, why pendingCause) {
	pl.plan.Unplaced = append(pl.plan.Unplaced, PendingReason{Job: j.Spec.Name, Missing: missing, Tasks: j.Spec.Tasks, Needs: why.needs, Available: why.available, BlockedBy: why.blockedBy})
}

// explanationKey tells demands apart that could find a place differently.
type explanationKey struct {
	demand string
	runs   time.Duration
	gang   int // tasks of a gang
}

// placementKey is a kind with the number of its wish, of a job that may have to keep
// off what is reserved.
type placementKey struct {
	demand             int32
	runs               time.Duration
	respectReservation bool
}

// placementKeyOf is what the job tries to find a place for.
func (pl *planner) placementKeyOf(j *WaitingJob) placementKey {
	a := placementKey{demand: j.demand, runs: j.Spec.ExpectedRunTime()}
	if a.demand == 0 || len(j.ImageExclusions) > 0 {
		d := j.taskDemand(pl.policy, nil)
		a.demand = pl.demandNumbers.numberOf(demandKeyOf(&d, j.Spec))
	}
	if h := pl.reservations[j.Spec.Role]; h != nil {
		a.respectReservation = a.runs == 0 || pl.queue.Now.Add(a.runs).After(h.startsBy)
	}
	if !pl.hasMaintenance {
		a.runs = 0 // how long a task runs matters where an agent goes away
	}
	return a
}

// demandKeyOf is what of a kind never changes.
func demandKeyOf(d *fit.Demand, s *job.Spec) string {
	still := *d
	still.RunTime, still.AvoidReserved = 0, false
	key := still.Key()
	if s.Gang {
		key += "gang"
	}
	return key
}

// explainWaiting says what is in the job's way: the agents, or that the places they
// have are kept for the job at the head of its role.
func (pl *planner) explainWaiting(j *WaitingJob, d *fit.Demand, missing int) pendingCause {
	if h := pl.reservations[j.Spec.Role]; d.AvoidReserved && h != nil {
		sooner, need := *d, 1
		sooner.AvoidReserved = false
		if j.Spec.Gang {
			need = missing
		}
		spots := pl.cluster.fillPlacements(&sooner, need)
		pl.cluster.undoPlacements(&sooner, spots)
		if len(spots) == need {
			return pendingCause{
				blockedBy: BlockedByReservation,
				needs:     fmt.Sprintf("a place that %s will not need", h.job),
				available: fmt.Sprintf("%s goes first and starts within %s, a run_time that ends before would fit", h.job, h.startsBy.Sub(pl.queue.Now).Round(time.Second)),
			}
		}
	}
	s := pl.cluster.explainShortage(d)
	return pendingCause{needs: s.Missing, available: s.Found}
}

// fillPlacements takes places for the job's tasks as far as there are any and its
// role's quota allows; d then asks for what the quota leaves. types are those
// of each place's GPUs. The bound is one that is in the way, quota that no task
// may start because of it.
func (pl *planner) fillPlacements(j *WaitingJob, d *fit.Demand) (spots []fit.Placement, types []map[string]int, b *quotaLimit, quota bool) {
	wish := d.Request
	for want := len(j.Tasks); want > 0; want = len(j.Tasks) - len(spots) {
		narrowed, may, b := pl.usage.restrictToQuota(j.Spec.Role, wish)
		if may == 0 {
			return spots, types, b, true
		}
		d.Request = narrowed
		n := min(want, may)
		got := pl.cluster.fillPlacements(d, n)
		for i := range got {
			has := countGPUTypes(&pl.agents[got[i].Agent], &got[i], wish.GPUs)
			pl.usage.addUsage(j.Spec.Role, has, got[i].Shares, 1)
			types = append(types, has)
		}
		spots = append(spots, got...)
		if len(got) < n {
			return spots, types, b, false
		}
	}
	return spots, types, nil, false
}

func (pl *planner) launchTasks(j *WaitingJob, spots []fit.Placement, types []map[string]int) {
	peers := pl.gangPeers(j, spots)
	values := func(int) map[string]string { return nil }
	if j.Spec.Matrix != nil && len(spots) > 0 {
		_, values = j.Spec.Matrix.Combinations()
	}
	for i := range spots {
		s, t := &spots[i], j.Tasks[i]
		if j.Spec.Group != "" {
			g := groupKeyOf(j.Spec)
			pl.groupAgents[g] = append(pl.groupAgents[g], pl.agents[s.Agent].ID)
		}
		l := TaskLaunch{
			TaskID: t.ID, Index: t.Index, Spec: j.Spec, Overhead: pl.policy.Overhead,
			Values: values(t.Index), DeviceIDs: deviceIDsOf(s), GPUTypes: types[i], Shares: s.Shares, Ports: s.Ports, Env: taskEnvironment(j, t.Index, pl.agents[s.Agent].Hostname, s.Ports, peers),
		}
		pl.launches[s.Agent] = append(pl.launches[s.Agent], l)
	}
}

// deviceIDsOf names all devices of a place, whole or in part.
func deviceIDsOf(s *fit.Placement) []string {
	if s.Shares == nil {
		return s.DeviceIDs
	}
	ids := make([]string, len(s.Shares))
	for i := range s.Shares {
		ids[i] = s.Shares[i].UUID
	}
	return ids
}

// findBlockedDemand is the first blocked demand that an agent would be of use to once
// more is free; -1 if there is none.
func (pl *planner) findBlockedDemand(i int) int {
	for b := range pl.blocked {
		if pl.cluster.isUsefulFor(i, &pl.blocked[b]) {
			return b
		}
	}
	return -1
}

// answerOffers accepts the offers of agents that got tasks, and holds or declines
// the others.
func (pl *planner) answerOffers() {
	pl.declineReturned()
	for i := range pl.agents {
		a := &pl.agents[i]
		if len(pl.launches[i]) > 0 {
			pl.plan.Accept = append(pl.plan.Accept, AcceptOffers{
				AgentID: a.ID, Hostname: a.Hostname, AgentURL: a.URL, Role: a.Role,
				OfferIDs: a.Offers, Launches: pl.launches[i], Refuse: pl.policy.RefuseSoon,
			})
			continue
		}
		if len(a.Offers) == 0 || pl.returnReasons[i] != "" {
			continue
		}
		list, reason, why, refuse := &pl.plan.Decline, "no task waits", DeclineIdle, pl.policy.RefuseLong
		switch b := pl.findBlockedDemand(i); {
		case b >= 0 && pl.keepsOffer != nil && !slices.ContainsFunc(a.Offers, func(id string) bool { return !pl.keepsOffer(id) }):
			list, reason, why, refuse = &pl.plan.Hold, "", DeclineHeld, pl.policy.RefuseSoon
		case b >= 0:
			list, reason, why, refuse = &pl.plan.Hold, pl.cluster.explainRefusal(i, &pl.blocked[b]), DeclineHeld, pl.policy.RefuseSoon
		case len(pl.blocked) > 0 || len(pl.plan.Unplaced) > 0:
			reason, why = "no task waits for "+describeGPUs(a), DeclineUnwanted
		}
		for _, id := range a.Offers {
			*list = append(*list, DeclinedOffer{OfferID: id, Reason: reason, Category: why, Refuse: refuse})
		}
	}
	for _, list := range [][]DeclinedOffer{pl.plan.Decline, pl.plan.Hold} {
		slices.SortFunc(list, func(x, y DeclinedOffer) int { return cmp.Compare(x.OfferID, y.OfferID) })
	}
}
