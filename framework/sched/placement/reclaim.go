package placement

import (
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/sched/eviction"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// reclaimer finds GPUs for waiting tasks that are inside what their role deserves: free ones of any role, those of tasks
// that end, and at last those that other roles borrow. It reserves them in the plan until Mesos offers them to the role.
type reclaimer struct {
	in *PlanInput
	// entitled copies Policy.PursuesEntitlements.
	entitled bool
	// level is the level of the present claims, as of quota.Tracker.RestrictToDeserved.
	level int
	// overhead is the amount that a task's executor frees.
	overhead fit.Amount
	// cluster is the cluster of the plan, in which GPUs are reserved. usage has the GPUs that roles hold and deserve.
	cluster *PartitionedCluster
	alloc   *Allocator
	returns *offerReturns
	// launches lists the launches of the plan so far.
	launches map[int][]TaskLaunch
	// leftoverOf and newestOffers copy the fields of CachedAgents.
	leftoverOf   LeftoverFunc
	newestOffers map[string]string
	fitPolicy    fit.PlacementPolicy

	// pool has each agent once, with what is free of it for any role, what tasks that end free, and without what the plan
	// has placed or reserved. It is nil before the first use.
	pool *fit.Cluster
	// offered are the indexes of agents with offers that other roles may get, by agent id.
	offered map[string][]int
	// victims chooses the running tasks that end in the pool.
	victims *eviction.Selector
	// endings are the tasks that end, by agent.
	endings map[string][]*queue.RunningTask
	// needs has the resources that claims will use of agents, reserved the part of them that the plan reserves.
	needs    map[string]*remainder
	reserved map[AgentKey]*fit.TaskResources
	// failed are the demands for which no victims were found.
	failed map[claimKey]bool
	// blocked copies to Plan.BlockedClaims.
	blocked map[job.RunID]string
	// ends are the tasks that must end, in the order in which they were chosen.
	ends []PreemptionVictim
	// firstClaim is the job of the first claim that something is reserved for, "" for none, firstClaimed what that is.
	firstClaim, firstClaimed string
	// awaiting are the claims that wait for tasks that end, by role: the first job of each.
	awaiting map[string]job.RunID
	// hostClaims are the agents with claims of tasks without GPUs.
	hostClaims map[string]bool
}

// claimKey is equal for claims that need the same victims.
type claimKey struct {
	demand string
	role   string
	// gang is the number of tasks that start together, 0 for a job that is no gang.
	gang int
	// within is the role that victims must be in, "" for any role. outside is the role that they must not be in.
	within, outside string
	// notBefore is when the job's PreemptAfter has passed, zero if it has none.
	notBefore time.Time
}

// poolRole is the role of all agents in the pool.
const poolRole = ""

// reclaimWithinLimits reserves GPUs for up to n tasks of a job that found no place, all of a gang or none. Where the limit
// of a role above leaves no room, tasks that borrow inside that role must end for it.
func (r *reclaimer) reclaimWithinLimits(j *queue.WaitingJob, d *fit.Demand, n int) []fit.Placement {
	usage := r.alloc.Usage
	restricted, allowed := usage.RestrictClaim(j.Spec, d.Request, n)
	if allowed > 0 {
		d.Request = restricted
	}
	allowed = min(allowed, n)
	if j.Spec.Gang && allowed < n {
		allowed = 0
	}
	var places []fit.Placement
	if allowed > 0 {
		places = r.reclaimFor(j, d, allowed, nil)
		if len(places) < allowed {
			return places
		}
	}
	if left := n - allowed; left > 0 {
		if limit := usage.LimitBelowClaim(j.Spec, &d.Request, left); limit != nil {
			places = append(places, r.reclaimFor(j, d, left, limit)...)
		}
	}
	return places
}

// reclaimFor reserves GPUs for up to n tasks of a job that found no place, and selects victims if that is necessary. It
// returns the places that the tasks will have, by agent of the pool. The tasks are inside what the role deserves. If a
// limit is given, it has no room for all of them, and the victims make room in it too.
func (r *reclaimer) reclaimFor(j *queue.WaitingJob, d *fit.Demand, n int, limit *quota.Limit) []fit.Placement {
	r.preparePool()
	shared := *d
	shared.Role, shared.AvoidReserved = poolRole, false
	key := claimKey{demand: queue.DemandKey(&shared, j.Spec), role: j.Spec.Role}
	if j.Spec.Gang {
		key.gang = n
	}
	if limit != nil {
		key.within = limit.Role
	}
	key.outside = r.alloc.Usage.ClaimingRole(j.Spec, r.level)
	if wait := j.Spec.PreemptAfter; wait > 0 {
		key.notBefore = j.Submitted.Add(wait)
	}
	if r.failed[key] {
		return nil
	}
	r.alloc.Usage.AddClaim(j.Spec, &shared.Request, n)
	places := r.pool.PlaceTasks(&shared, n)
	switch {
	case limit == nil && len(places) == n:
	case !j.AwaitsOffers && limit != nil:
		r.pool.UndoPlacements(&shared, places)
		places = r.placeInsideLimit(j, &shared, key, n, n-len(places))
	case !j.AwaitsOffers:
		r.pool.UndoPlacements(&shared, places)
		places = r.placeOnReclaimed(j, &shared, key, n, len(places))
	case j.Spec.Gang || limit != nil:
		r.pool.UndoPlacements(&shared, places)
		places = nil
	}
	r.alloc.Usage.AddClaim(j.Spec, &shared.Request, len(places)-n)
	if len(places) == 0 {
		if !j.AwaitsOffers {
			r.failed[key] = true
		}
		return nil
	}
	r.reserve(j, &shared, places)
	r.countReservations(j, places)
	return places
}

// placeOnReclaimed selects victims for the tasks that do not fit on what is free, which is room for free of them, and
// returns the places of all tasks that fit then: all of a gang or none.
func (r *reclaimer) placeOnReclaimed(j *queue.WaitingJob, d *fit.Demand, key claimKey, n, free int) []fit.Placement {
	chosen := r.chooseVictims(j, d, key, n, n-free)
	r.victims.Take(chosen)
	places := r.pool.PlaceTasks(d, n)
	if len(chosen) > 0 && len(places) <= free {
		r.pool.UndoPlacements(d, places)
		r.victims.Return(chosen)
		chosen, places = nil, r.pool.PlaceTasks(d, n)
	}
	if j.Spec.Gang && len(places) < n {
		r.pool.UndoPlacements(d, places)
		r.victims.Return(chosen)
		return nil
	}
	r.endChosen(j, chosen)
	return places
}

// placeInsideLimit selects victims inside the role of a limit that has no room for n tasks of a job, missing of which find
// no free place either. It returns the places of the tasks that the limit permits then: all of a gang or none.
func (r *reclaimer) placeInsideLimit(j *queue.WaitingJob, d *fit.Demand, key claimKey, n, missing int) []fit.Placement {
	usage := r.alloc.Usage
	chosen := r.chooseVictims(j, d, key, n, n)
	if len(chosen) == 0 {
		chosen = r.chooseVictims(j, d, key, n, missing)
	}
	limit := usage.LimitBelowClaim(j.Spec, &d.Request, n)
	for ; limit != nil; limit = usage.LimitBelowClaim(j.Spec, &d.Request, n) {
		u := r.victims.ChooseFirst(func(u *eviction.Unit) bool {
			return limit.CountsUsage(u.Role, u.Types, u.Shares) && r.mayEnd(j, key, u, true)
		})
		if u == nil {
			break
		}
		chosen = append(chosen, u)
	}
	if _, allowed := usage.RestrictClaim(j.Spec, d.Request, n); allowed < n {
		r.victims.Release(chosen)
		if j.Spec.Gang || allowed == 0 {
			return nil
		}
		return r.placeInsideLimit(j, d, key, allowed, max(missing-(n-allowed), 0))
	}
	fits := r.victims.Count(d, n, chosen)
	chosen = r.victims.Prune(chosen, func(units []*eviction.Unit) bool {
		return usage.LimitBelowClaim(j.Spec, &d.Request, n) == nil && r.victims.Count(d, n, units) >= fits
	})
	r.victims.Take(chosen)
	places := r.pool.PlaceTasks(d, n)
	if j.Spec.Gang && len(places) < n || len(places) == 0 {
		r.pool.UndoPlacements(d, places)
		r.victims.Return(chosen)
		return nil
	}
	r.endChosen(j, chosen)
	return places
}

// chooseVictims chooses tasks whose end makes room for missing more of n tasks of a job: if possible such that no role
// falls below what it deserves, otherwise also larger ones than what their role borrows. What is lent can be taken back, unless
// the roles that fall below what they deserve would then claim the same places.
func (r *reclaimer) chooseVictims(j *queue.WaitingJob, d *fit.Demand, key claimKey, n, missing int) []*eviction.Unit {
	claim := eviction.Claim{
		Key: fmt.Sprint(key), Demand: d, Tasks: n, Missing: missing, Gang: j.Spec.Gang,
		Rules: []func(*eviction.Unit) bool{
			func(u *eviction.Unit) bool { return r.mayEnd(j, key, u, true) },
			func(u *eviction.Unit) bool { return r.mayEnd(j, key, u, false) },
		},
	}
	chosen := r.victims.Choose(&claim)
	if r.endInVain(j, d, n, chosen) {
		r.victims.Release(chosen)
		claim.Key, claim.Rules = "", claim.Rules[:1]
		return r.victims.Choose(&claim)
	}
	if len(chosen) > 0 || d.Request.NeedsSameType() || !r.chooseInRolesAbove(j, &claim) {
		return chosen
	}
	return r.victims.Choose(&claim)
}

// chooseInRolesAbove chooses tasks inside the roles above a claim that would hold more than they deserve with it, until they do
// not: only then others may end for it too. It returns false if there are no such roles, or if their tasks are not enough.
func (r *reclaimer) chooseInRolesAbove(j *queue.WaitingJob, c *eviction.Claim) bool {
	above := func() string { return r.alloc.Usage.RoleBeyondDeserved(j.Spec, &c.Demand.Request, r.level) }
	for role := above(); role != ""; role = above() {
		var u *eviction.Unit
		for rule := 0; rule < len(c.Rules) && u == nil; rule++ {
			u = r.victims.ChooseFirst(func(u *eviction.Unit) bool {
				return u.HoldsGPUs && quota.IsWithinRole(u.Role, role) && c.Rules[rule](u)
			})
		}
		if u == nil {
			r.victims.Release(c.Chosen)
			return false
		}
		c.Chosen = append(c.Chosen, u)
	}
	c.Key += " in roles above"
	c.Permits = func() bool { return above() == "" }
	return len(c.Chosen) > 0
}

// endInVain reports whether the end of chosen units makes claims of other tasks that would take the places of the claimant's n
// tasks: of the units themselves or of tasks that end already, which would start again and end again, or of waiting tasks that
// would take even the places that the claimant has without it.
func (r *reclaimer) endInVain(claimant *queue.WaitingJob, d *fit.Demand, n int, chosen []*eviction.Unit) bool {
	usage := r.alloc.Usage
	if !slices.ContainsFunc(chosen, func(u *eviction.Unit) bool { return usage.IsBelowDeserved(&u.Holding) }) {
		return false
	}
	var ended []*queue.RunningTask
	for _, u := range chosen {
		ended = append(ended, u.Tasks...)
	}
	for _, list := range r.endings {
		for _, t := range list {
			if !t.Ended { // else it waits again, if it does
				ended = append(ended, t)
			}
		}
	}
	count := func(sign int) {
		for _, t := range ended {
			usage.AddUsage(t.Spec.Role, t.GPUTypes, t.Shares, sign)
			usage.AddHostUsage(t.Spec, sign)
		}
	}
	var undo []func()
	defer func() {
		for _, f := range undo {
			f()
		}
	}()
	// restrict returns how many tasks of a job are claims on the present level or on one before, which come first.
	restrict := func(j *queue.WaitingJob) (request gpu.Request, tasks int) {
		for level := range r.level + 1 {
			if at, n := usage.RestrictToDeserved(j.Spec, level, len(j.Tasks)); n > tasks {
				request, tasks = at, n
			}
		}
		return request, tasks
	}
	// newClaims returns the tasks of jobs that are claims only if the chosen units end, and counts them as claimed.
	newClaims := func(jobs []queue.WaitingJob) (claims []eviction.Claim) {
		before := make([]int, len(jobs))
		for i := range jobs {
			_, before[i] = restrict(&jobs[i])
		}
		count(-1)
		defer count(1)
		for i := range jobs {
			j := &jobs[i]
			request, after := restrict(j)
			if more := after - before[i]; more > 0 && j.Spec != claimant.Spec {
				demand := j.TaskDemand(r.overhead, nil)
				demand.Role, demand.Request, demand.RunTime = poolRole, request, 0
				claims = append(claims, eviction.Claim{Demand: &demand, Tasks: more, Gang: j.Spec.Gang})
				usage.AddClaim(j.Spec, &request, more)
				undo = append(undo, func() { usage.AddClaim(j.Spec, &request, -more) })
			}
		}
		return claims
	}
	claims := newClaims(jobsOfTasks(ended))
	if r.victims.CountBeside(claims, d, n, chosen) < r.victims.Count(d, n, chosen) {
		return true
	}
	claims = append(claims, newClaims(r.in.Waiting)...)
	return r.victims.CountBeside(claims, d, n, chosen) < r.victims.Count(d, n, nil)
}

// jobsOfTasks returns the jobs of running tasks with these tasks, as if they waited, by name.
func jobsOfTasks(tasks []*queue.RunningTask) (jobs []queue.WaitingJob) {
	indexes := map[*job.Spec]int{}
	for _, t := range tasks {
		at, known := indexes[t.Spec]
		if !known {
			at, jobs = len(jobs), append(jobs, queue.WaitingJob{Spec: t.Spec, Run: t.Run})
			indexes[t.Spec] = at
		}
		jobs[at].Tasks = append(jobs[at].Tasks, queue.WaitingTask{ID: t.TaskID})
	}
	slices.SortFunc(jobs, func(a, b queue.WaitingJob) int { return job.CompareRuns(a.RunID(), b.RunID()) })
	return jobs
}

// mayEnd reports whether a unit may end for a claim. With keepsDeserved, its role keeps what it deserves.
func (r *reclaimer) mayEnd(j *queue.WaitingJob, key claimKey, u *eviction.Unit, keepsDeserved bool) bool {
	if u.Chosen || key.within != "" && !quota.IsWithinRole(u.Role, key.within) || key.outside != "" && quota.IsWithinRole(u.Role, key.outside) ||
		slices.ContainsFunc(u.Tasks, func(t *queue.RunningTask) bool { return eviction.IsTooEarly(j, t.Spec, r.in.Now) }) {
		return false
	}
	return r.alloc.Usage.MayTake(key.role, j.Spec.Request.GPUs > 0, &u.Holding, keepsDeserved)
}

// endChosen makes the tasks of chosen units victims of a claim.
func (r *reclaimer) endChosen(j *queue.WaitingJob, chosen []*eviction.Unit) {
	claim := r.verb() + " the GPUs"
	if j.Spec.Request.GPUs == 0 {
		claim = "deserves the CPUs and memory"
	}
	for _, u := range chosen {
		for _, t := range u.End(r.in.Now) {
			r.endings[t.AgentID] = append(r.endings[t.AgentID], t)
			r.ends = append(r.ends, PreemptionVictim{TaskID: t.TaskID, ForJob: j.RunID(), DeservedBy: j.Spec.Role, Claim: claim})
		}
	}
}

// preparePool builds the pool and the units from the plan so far.
func (r *reclaimer) preparePool() {
	if r.pool != nil {
		return
	}
	all := r.cluster.agents
	var merged []fit.AgentResources
	for from := 0; from < len(all); { // sorted by id
		to := from
		a := WithoutFree(all[from])
		a.Role, a.Ports = poolRole, nil
		for ; to < len(all) && all[to].ID == a.ID; to++ {
			a.Ports = append(a.Ports, all[to].Ports...)
		}
		merged, from = append(merged, a), to
	}
	r.pool = fit.NewCluster(merged, r.fitPolicy, r.in.Now)
	r.addFree(all)
	for at, list := range r.launches {
		for i := range list {
			r.takeLaunch(at, &list[i])
		}
	}
	running := slices.Clone(r.in.Running) // victims are marked in it
	r.in.Running = running
	waits := map[string]bool{}
	for i := range r.in.Waiting {
		waits[r.in.Waiting[i].Spec.Role] = true
	}
	for i := range running {
		t := &running[i]
		if !t.Ending || t.Stuck || t.OfferedElsewhere { // what is offered to any role is in the pool
			continue
		}
		if r.isOnReserved(t) && !waits[t.Spec.Role] { // its place is for its role, which requests no offers
			continue
		}
		if at := r.pool.FindAgent(t.AgentID, poolRole); at >= 0 {
			r.pool.ReleaseAt(at, t.Resources(r.overhead))
			r.endings[t.AgentID] = append(r.endings[t.AgentID], t)
		}
	}
	r.collectVictims()
}

// addFree adds what is offered, or what the last offer of an agent without offers left. Resources that are reserved in
// Mesos for one role are left out.
func (r *reclaimer) addFree(all []fit.AgentResources) {
	r.offered = map[string][]int{}
	for i := range all {
		if a := &all[i]; len(a.Offers) > 0 && !isReserved(a) {
			r.offered[a.ID] = append(r.offered[a.ID], i)
			r.pool.ReleaseResources(a.ID, poolRole, FreeResources(a))
		}
	}
	for i := range all {
		if a := &all[i]; len(r.offered[a.ID]) == 0 && r.newestOffers[a.ID] == a.Role && !isReserved(a) {
			r.pool.ReleaseResources(a.ID, poolRole, r.leftoverOf(a))
		}
	}
}

// isReserved reports whether an agent's offers to a role have only resources that are reserved for the role.
func isReserved(a *fit.AgentResources) bool { return a.Reserved && !a.Unreserved }

// takeLaunch takes what a launch of the plan uses from the pool.
func (r *reclaimer) takeLaunch(agent int, l *TaskLaunch) {
	if r.pool == nil {
		return
	}
	at := r.pool.FindAgent(r.cluster.agents[agent].ID, poolRole)
	h := fit.TaskResources{Amount: queue.TaskAmount(l.Spec, l.Overhead), Shares: l.Shares, Ports: l.Ports}
	h.GPUs, h.DeviceIDs = gpu.ExcludeShared(l.Spec.Request.GPUs, l.DeviceIDs, l.Shares)
	if at >= 0 && !isReserved(&r.cluster.agents[agent]) {
		r.pool.TakeAt(at, h)
	}
}

// collectVictims sets the tasks that may be victims.
func (r *reclaimer) collectVictims() {
	above, useful := r.rolesAboveEntitlement(), map[string]bool{}
	for i := range r.cluster.agents {
		if a := &r.cluster.agents[i]; a.HasGPUs() || r.alloc.Usage.DeservesHost() {
			useful[a.ID] = true // tasks without GPUs may keep GPUs from being used, or hold what roles deserve
		}
	}
	mayEnd := func(t *queue.RunningTask) bool {
		return !t.Spec.Guaranteed && (t.Spec.Request.GPUs > 0 || useful[t.AgentID]) && !r.isOnReserved(t) && eviction.HasRunEnough(t, r.in.Now)
	}
	r.victims = &eviction.Selector{
		Cluster: r.pool, Role: poolRole, Overhead: r.overhead,
		Units: eviction.CollectUnits(r.in.Running, r.in.Now, mayEnd, func(role string) bool { return !above[role] }),
		OnChange: func(u *eviction.Unit, sign int) {
			r.alloc.Usage.AddEnding(&u.Holding, sign)
		},
	}
}

// isOnReserved reports whether a task runs where its role is offered only reserved resources: other roles do not get
// them.
func (r *reclaimer) isOnReserved(t *queue.RunningTask) bool {
	at := r.cluster.findAgent(t.AgentID, t.Spec.Role)
	return at >= 0 && isReserved(&r.cluster.agents[at])
}

// rolesAboveEntitlement returns the roles that hold more GPUs of any type than they are entitled to.
func (r *reclaimer) rolesAboveEntitlement() map[string]bool {
	if !r.entitled { // then the allocator has added it
		queue.AddDemand(r.alloc.Usage, r.in.Waiting)
	}
	return r.alloc.Usage.RolesAboveEntitlement()
}

// reserve keeps the places of a claim for it: later tasks of the plan do not use what is free of them, and offers of them
// to other roles are returned, so that Mesos offers them to this one.
func (r *reclaimer) reserve(j *queue.WaitingJob, d *fit.Demand, places []fit.Placement) {
	if r.firstClaim == "" {
		r.firstClaim, r.firstClaimed = j.Spec.Name, "GPUs"
		if j.Spec.Request.GPUs == 0 {
			r.firstClaimed = "CPUs and memory"
		}
	}
	changed := map[string]bool{}
	pool := r.pool.Agents()
	for i := range places {
		id := pool[places[i].Agent].ID
		if r.needs[id] == nil {
			a := &pool[places[i].Agent]
			r.needs[id] = &remainder{namesDevices: len(a.Inventory) > 0 || len(a.AllShared) > 0 || len(places[i].DeviceIDs) > 0}
		}
		r.needs[id].addPlacement(d, &places[i])
		r.hostClaims[id] = r.hostClaims[id] || d.Request.GPUs == 0
		changed[id] = true
	}
	for id := range changed {
		for _, at := range r.offered[id] {
			if !r.reserveOn(at) {
				continue
			}
			offer := r.returns.byAgent[at]
			switch {
			case r.cluster.agents[at].Role == j.Spec.Role:
				offer.isClaimed = true
			case offer.reason == "":
				offer.reason = fmt.Sprintf("role %s %s it and %s waits for it", j.Spec.Role, r.verb(), j.Spec.Name)
			}
			r.returns.byAgent[at] = offer
		}
	}
}

// reserveOn reserves on an agent that has offers what claims need beyond what tasks that end will free there. It reports
// whether GPUs are reserved, or CPUs or memory for tasks without GPUs: only for these Mesos must offer it to another role.
func (r *reclaimer) reserveOn(at int) bool {
	a := &r.cluster.agents[at]
	left := *r.needs[a.ID]
	left.DeviceIDs, left.Shares, left.Ports = slices.Clone(left.DeviceIDs), slices.Clone(left.Shares), nil
	for _, t := range r.endings[a.ID] {
		left.subtractTask(t, r.overhead)
	}
	if left.namesDevices && len(left.DeviceIDs) > 0 {
		left.GPUs = len(left.DeviceIDs)
	}
	left.GPUs = max(left.GPUs, 0)
	left.Shares = slices.DeleteFunc(left.Shares, func(s gpu.DeviceShare) bool { return s.MemMiB == 0 && s.Cores == 0 })
	needsHost := left.Amount.CPUs > 0 || left.Amount.MemMiB > 0
	isForOffer := left.GPUs > 0 || len(left.Shares) > 0 || r.hostClaims[a.ID] && needsHost
	if !isForOffer && !needsHost {
		return false
	}
	key := KeyOfAgent(a)
	before := r.reserved[key]
	if before == nil {
		before = &fit.TaskResources{}
		r.reserved[key] = before
	}
	more := fit.TaskResources{
		Amount: fit.Amount{
			CPUs:    max(left.Amount.CPUs-before.Amount.CPUs, 0),
			MemMiB:  max(left.Amount.MemMiB-before.Amount.MemMiB, 0),
			DiskMiB: max(left.Amount.DiskMiB-before.Amount.DiskMiB, 0),
		},
		GPUs:      max(left.GPUs-before.GPUs, 0),
		DeviceIDs: slices.DeleteFunc(left.DeviceIDs, func(id string) bool { return slices.Contains(before.DeviceIDs, id) }),
	}
	for _, s := range left.Shares {
		for _, b := range before.Shares {
			if b.UUID == s.UUID {
				s.MemMiB, s.Cores = max(s.MemMiB-b.MemMiB, 0), max(s.Cores-b.Cores, 0)
			}
		}
		more.Shares = append(more.Shares, s)
	}
	r.cluster.partition(a.Role).ReserveResources(a.ID, a.Role, more)
	before.Amount = before.Amount.Plus(more.Amount)
	before.GPUs += more.GPUs
	before.DeviceIDs = append(before.DeviceIDs, more.DeviceIDs...)
	before.Shares = left.Shares
	return isForOffer
}

// countReservations counts the places of a claim against the limits of its role and of its user, so that no more is
// reclaimed than these permit.
func (r *reclaimer) countReservations(j *queue.WaitingJob, places []fit.Placement) {
	r.alloc.Usage.AddRunningJob(j.Spec)
	pool := r.pool.Agents()
	for i := range places {
		r.alloc.Usage.AddReservation(j.Spec, countGPUTypes(&pool[places[i].Agent], &places[i], j.Spec.Request.GPUs), places[i].Shares)
	}
}

// verb is what roles do with GPUs that reclaim gives them.
func (r *reclaimer) verb() string {
	if r.entitled {
		return "is entitled to"
	}
	return "deserves"
}
