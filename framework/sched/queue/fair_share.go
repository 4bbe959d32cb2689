package queue

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// JobOrder yields waiting jobs in placement order: the role with the least weighted share first, level by level of the tree
// of roles, within a role by priority, then by users: the one with the least share first, and the jobs of one user in the
// role's order. What a job receives counts for its role and its user at once. Lowered jobs follow all others, in the same
// order.
type JobOrder struct {
	// jobs are the waiting jobs, oldest first. Next returns pointers into it.
	jobs []WaitingJob
	// byRole are the indexes of the jobs that Next has not returned yet, by role, in the role's order.
	byRole map[string][]int
	// usage has the resources that roles hold. The caller adds a job's places before it calls Next again. tree compares roles by
	// their shares, unless shareOf is set, which then returns the share by which they are compared.
	usage   *quota.Tracker
	tree    *roleTree
	shareOf func(role string) float64
	// lastRole is the role of the last job, and lastHeld what it held then: as long as that has not changed, it is still
	// the role with the least share. lastHeld is -1 before the first job.
	lastRole string
	lastHeld int
	// users are the users of each role that have jobs which Next has not returned yet, without those of a role with one
	// queue or with one user. Their jobs are in byRole too, which then only counts them.
	users map[string][]*userJobs
	// lastUser has the last job, for which the role held heldBefore.
	lastUser   *userJobs
	heldBefore int
	// addLowered adds the lowered jobs to byRole. It is nil once they are added, and without any.
	addLowered func()
	// last is the last job and what Next removed for it, so that Continue can restore it. continued are the jobs that were
	// continued, by index, with the tasks that are left.
	last      removedJob
	continued map[int]*WaitingJob
}

// removedJob is the job that Next has returned. queued, positions and indexes are the lists of its role and of its user before.
type removedJob struct {
	index              int
	queued             []int
	user               *userJobs
	positions, indexes []int
}

// userJobs are the jobs of one user of a role.
type userJobs struct {
	user quota.User
	// positions are the jobs' positions in the role's order, indexes their indexes in the list of jobs.
	positions, indexes []int
	// received is the amount that the jobs have received since the order was made, in thousandths of GPUs.
	received int
}

// NewJobOrder returns the order of waiting jobs, which are sorted by submission. Usage is read at each call of Next.
func NewJobOrder(now time.Time, waiting []WaitingJob, roles []Role, usage *quota.Tracker) *JobOrder {
	o := &JobOrder{jobs: waiting, byRole: map[string][]int{}, usage: usage, lastHeld: -1, continued: map[int]*WaitingJob{}}
	o.addJobs(now, roles, false)
	for i := range waiting {
		if waiting[i].Lowered {
			o.addLowered = func() { o.addJobs(now, roles, true) }
			break
		}
	}
	return o
}

// addJobs adds the jobs that are lowered, or those that are not, to byRole.
func (o *JobOrder) addJobs(now time.Time, roles []Role, lowered bool) {
	waiting := o.jobs
	ownerOf, haveSeveralUsers := map[string]string{}, map[string]bool{}
	for from := 0; from < len(waiting); { // jobs of one role mostly follow each other
		role, to := waiting[from].Spec.Role, from
		owner, known := ownerOf[role]
		if !known {
			owner = waiting[from].Spec.Owner
			ownerOf[role] = owner
		}
		hasOthers := false
		for ; to < len(waiting) && waiting[to].Spec.Role == role; to++ {
			hasOthers = hasOthers || waiting[to].Spec.Owner != owner
		}
		if hasOthers {
			haveSeveralUsers[role] = true
		}
		list := slices.Grow(o.byRole[role], to-from)
		for i := from; i < to; i++ {
			if waiting[i].Lowered == lowered {
				list = append(list, i)
			}
		}
		o.byRole[role], from = list, to
	}
	for name, list := range o.byRole {
		role := &Role{} // a role that is not configured has the defaults
		if i := slices.IndexFunc(roles, func(r Role) bool { return r.Name == name }); i >= 0 {
			role = &roles[i]
		}
		if len(list) == 0 {
			continue
		}
		role.sortJobs(now, waiting, list)
		if haveSeveralUsers[name] && !role.hasOneQueue(o.usage) {
			o.splitByUser(name, list)
		}
	}
	o.tree = newRoleTree(roles, o.byRole, o.usage)
}

// splitByUser sets the users of a role from its jobs in the role's order.
func (o *JobOrder) splitByUser(role string, list []int) {
	if o.users == nil {
		o.users = map[string][]*userJobs{}
	}
	byName := map[string]*userJobs{}
	for position, index := range list {
		name := o.jobs[index].Spec.Owner
		u := byName[name]
		if u == nil {
			u = &userJobs{user: quota.User{Role: role, Name: name}}
			byName[name] = u
			o.users[role] = append(o.users[role], u)
		}
		u.positions, u.indexes = append(u.positions, position), append(u.indexes, index)
	}
}

// nextOfRole removes the next job of a role, and returns its index.
func (o *JobOrder) nextOfRole(role string) int {
	left := o.byRole[role]
	o.byRole[role] = left[1:]
	o.last = removedJob{index: left[0], queued: left}
	users, areCompared := o.users[role]
	if !areCompared {
		return left[0]
	}
	if o.lastUser != nil {
		o.lastUser.received += o.usage.TotalHeld(o.lastUser.user.Role) - o.heldBefore
	}
	var best *userJobs
	for _, u := range users {
		if len(u.indexes) > 0 && (best == nil || o.compareUsers(u, best) < 0) {
			best = u
		}
	}
	index := best.indexes[0]
	o.last = removedJob{index: index, queued: left, user: best, positions: best.positions, indexes: best.indexes}
	best.positions, best.indexes = best.positions[1:], best.indexes[1:]
	o.lastUser, o.heldBefore = best, o.usage.TotalHeld(role)
	return index
}

// compareUsers compares which of two users of a role is served first, by their next jobs.
func (o *JobOrder) compareUsers(a, b *userJobs) int {
	return cmp.Or(
		cmp.Compare(o.jobs[b.indexes[0]].Spec.Priority, o.jobs[a.indexes[0]].Spec.Priority),
		cmp.Compare(o.usage.UserShare(a.user, a.received, 0), o.usage.UserShare(b.user, b.received, 0)),
		cmp.Compare(a.positions[0], b.positions[0]))
}

// Next returns the next job, false after the last one.
func (o *JobOrder) Next() (*WaitingJob, bool) {
	if len(o.byRole[o.lastRole]) == 0 || o.usage.TotalHeld(o.lastRole) != o.lastHeld {
		role, ok := o.roleWithLeastShare()
		if add := o.addLowered; !ok && add != nil {
			o.addLowered, o.users, o.lastUser = nil, nil, nil
			add()
			role, ok = o.roleWithLeastShare()
		}
		if !ok {
			return nil, false
		}
		o.lastRole, o.lastHeld = role, o.usage.TotalHeld(role)
	}
	index := o.nextOfRole(o.lastRole)
	if j := o.continued[index]; j != nil {
		return j, true
	}
	return &o.jobs[index], true
}

// Portion returns how many tasks of the job that Next returned last get places before another role, or another user of the
// role, is next: at least one. Without it, the tasks of one large job would take all that its role is offered before a
// role with a smaller share is served. All tasks of a gang are one portion.
func (o *JobOrder) Portion(j *WaitingJob) int {
	n := len(j.Tasks)
	if j.Spec.Gang || n < 2 {
		return n
	}
	milli := o.usage.MilliPerTask(&j.Spec.Request, quota.AllTypes)
	if milli == 0 {
		return n
	}
	role := j.Spec.Role
	hasJobs := func(name string) bool { return len(o.byRole[name]) > 0 }
	o.tree.measure()
	rivals := o.tree.rivalsOf(role, hasJobs)
	nextUser := o.nextUser()
	if len(rivals) == 0 && nextUser == nil {
		return n
	}
	before := o.tree.leaves[role].amount
	isNext := func(tasks int) bool {
		if nextUser != nil {
			u := o.last.user
			mine, others := o.usage.UserShare(u.user, u.received, tasks*milli), o.usage.UserShare(nextUser.user, nextUser.received, 0)
			if mine > others {
				return false
			}
		}
		o.usage.AddMilliGPUs(role, "", tasks*milli)
		more := o.tree.amountOfLeaf(o.tree.leaves[role]) - before
		o.usage.AddMilliGPUs(role, "", -tasks*milli)
		return isServedFirst(rivals, more)
	}
	least := o.leastPortion(milli)
	return min(n, least+sort.Search(n-min(n, least), func(k int) bool { return !isNext(least + k) }))
}

// leastPortion returns the number of tasks of a portion that bounds the work of a plan: about a part in 256 of what roles
// hold.
func (o *JobOrder) leastPortion(milli int) int {
	held := 0
	for role := range o.tree.leaves {
		held += o.usage.TotalHeld(role)
	}
	return max(held/256/milli, 1)
}

// nextUser returns the user of the last job's role that is served after the user of that job, nil if the role has one queue or
// none has a job of the same priority.
func (o *JobOrder) nextUser() (next *userJobs) {
	if o.last.user == nil {
		return nil
	}
	priority := o.jobs[o.last.index].Spec.Priority
	for _, u := range o.users[o.last.user.user.Role] {
		if u == o.last.user || len(u.indexes) == 0 || o.jobs[u.indexes[0]].Spec.Priority != priority {
			continue
		}
		if next == nil || o.compareUsers(u, next) < 0 {
			next = u
		}
	}
	return next
}

// Continue makes the job that Next returned last the next one of its role and user again, with these tasks. peers are the
// agents of its other tasks that the caller has placed since.
func (o *JobOrder) Continue(tasks []WaitingTask, peers []string) {
	l := &o.last
	j := o.jobs[l.index]
	if before := o.continued[l.index]; before != nil {
		j = *before
	}
	j.Tasks = tasks
	if len(peers) > 0 {
		j.PeerAgents = slices.Concat(j.PeerAgents, peers)
	}
	o.continued[l.index] = &j
	o.byRole[j.Spec.Role] = l.queued
	if l.user != nil {
		l.user.positions, l.user.indexes = l.positions, l.indexes
	}
}

// roleWithLeastShare returns the role with jobs left that holds the least for its weight, the first by name if several
// do.
func (o *JobOrder) roleWithLeastShare() (role string, ok bool) {
	if o.shareOf == nil {
		o.tree.measure()
		return o.tree.leastOf(func(name string) bool { return len(o.byRole[name]) > 0 })
	}
	names := make([]string, 0, len(o.byRole))
	for name, left := range o.byRole {
		if len(left) > 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", false
	}
	return slices.MinFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(o.shareOf(a), o.shareOf(b)), cmp.Compare(a, b))
	}), true
}

// AddDemand adds what waiting jobs demand to a tracker. Equal demands of one user are added together.
func AddDemand(usage *quota.Tracker, waiting []WaitingJob) {
	type kind struct {
		user   quota.User
		number int32
	}
	type sum struct {
		spec  *job.Spec
		tasks int
	}
	var sums []sum
	indexes := map[kind]int{}
	for i := range waiting {
		w := &waiting[i]
		if w.DemandNumber == 0 {
			usage.AddDemand(w.Spec, len(w.Tasks))
			continue
		}
		k := kind{quota.UserOf(w.Spec), w.DemandNumber}
		at, known := indexes[k]
		if !known {
			at, sums = len(sums), append(sums, sum{spec: w.Spec})
			indexes[k] = at
		}
		sums[at].tasks += len(w.Tasks)
	}
	for _, s := range sums {
		usage.AddDemand(s.spec, s.tasks)
	}
}

// CountUsage adds what running tasks hold to a tracker. Tasks of one user mostly follow each other and are of one GPU type, so
// their counts are summed before they are added.
func CountUsage(usage *quota.Tracker, running []RunningTask) {
	if usage.Reclaims() {
		for i := range running {
			r := &running[i]
			if r.Ending && !r.Ended {
				usage.AddEnding(r.Holding(), 1)
			}
			if r.Spec.Guaranteed && !r.Ended {
				usage.AddGuaranteed(r.Spec, 1, r.GPUTypes, r.Shares)
			}
		}
	}
	var last *job.Spec
	gpuType, milli := "", -1
	flush := func() {
		if milli >= 0 {
			usage.AddMilliGPUs(last.Role, gpuType, milli)
			usage.AddUserMilliGPUs(last, gpuType, milli)
		}
	}
	for i := range running {
		r := &running[i]
		if r.Ended {
			continue
		}
		usage.AddRunningJob(r.Spec)
		usage.AddHostUsage(r.Spec, 1)
		if len(r.Shares) > 0 {
			usage.AddUsage(r.Spec.Role, nil, r.Shares, 1)
			usage.AddUserUsage(r.Spec, nil, r.Shares, 1)
		}
		if n, ok := r.GPUTypes[gpuType]; ok && len(r.GPUTypes) == 1 && milli >= 0 && r.Spec.Role == last.Role && r.Spec.Owner == last.Owner {
			milli += n * quota.MilliPerGPU // as the task before; iterating over a map takes longer than a lookup
			continue
		}
		for name, n := range r.GPUTypes {
			flush()
			last, gpuType, milli = r.Spec, name, n*quota.MilliPerGPU
		}
	}
	flush()
}
