package queue

import (
	"cmp"
	"slices"
	"time"

	"mesos-gpu/framework/sched/quota"
)

// JobOrder yields waiting jobs in placement order: the role with the least weighted share first, within a role by
// priority, then by users: the one with the least share first, and the jobs of one user in the role's order. What a job
// receives counts for its role and its user at once.
type JobOrder struct {
	// jobs are the waiting jobs, oldest first. Next returns pointers into it.
	jobs []WaitingJob
	// byRole are the indexes of the jobs that Next has not returned yet, by role, in the role's order.
	byRole map[string][]int
	// usage has the resources that roles hold. The caller adds a job's places before it calls Next again. shareOf returns the share
	// by which roles are compared.
	usage   *quota.Tracker
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
	o := &JobOrder{jobs: waiting, byRole: map[string][]int{}, usage: usage, shareOf: usage.WeightedShare, lastHeld: -1}
	for from := 0; from < len(waiting); { // jobs of one role mostly follow each other
		role, to := waiting[from].Spec.Role, from+1
		for to < len(waiting) && waiting[to].Spec.Role == role {
			to++
		}
		list := o.byRole[role]
		for i := from; i < to; i++ {
			list = append(list, i)
		}
		o.byRole[role], from = list, to
	}
	for name, list := range o.byRole {
		role := &Role{} // a role that is not configured has the defaults
		if i := slices.IndexFunc(roles, func(r Role) bool { return r.Name == name }); i >= 0 {
			role = &roles[i]
		}
		role.sortJobs(now, waiting, list)
		owner := func(i int) string { return waiting[i].Spec.Owner }
		if !role.OneQueue && slices.ContainsFunc(list, func(i int) bool { return owner(i) != owner(list[0]) }) {
			o.splitByUser(name, list)
		}
	}
	return o
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
	best.positions, best.indexes = best.positions[1:], best.indexes[1:]
	o.lastUser, o.heldBefore = best, o.usage.TotalHeld(role)
	return index
}

// compareUsers compares which of two users of a role is served first, by their next jobs.
func (o *JobOrder) compareUsers(a, b *userJobs) int {
	return cmp.Or(
		cmp.Compare(o.jobs[b.indexes[0]].Spec.Priority, o.jobs[a.indexes[0]].Spec.Priority),
		cmp.Compare(o.usage.UserShare(a.user, a.received), o.usage.UserShare(b.user, b.received)),
		cmp.Compare(a.positions[0], b.positions[0]))
}

// Next returns the next job, false after the last one.
func (o *JobOrder) Next() (*WaitingJob, bool) {
	if len(o.byRole[o.lastRole]) == 0 || o.usage.TotalHeld(o.lastRole) != o.lastHeld {
		role, ok := o.roleWithLeastShare()
		if !ok {
			return nil, false
		}
		o.lastRole, o.lastHeld = role, o.usage.TotalHeld(role)
	}
	return &o.jobs[o.nextOfRole(o.lastRole)], true
}

// roleWithLeastShare returns the role with jobs left that holds the least for its weight, the first by name if several
// do.
func (o *JobOrder) roleWithLeastShare() (role string, ok bool) {
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

// AddDemand adds what waiting jobs demand to a tracker.
func AddDemand(usage *quota.Tracker, waiting []WaitingJob) {
	for i := range waiting {
		w := &waiting[i]
		usage.AddDemand(quota.UserOf(w.Spec), &w.Spec.Request, len(w.Tasks))
	}
}

// CountUsage adds what running tasks hold to a tracker. Tasks of one role mostly follow each other and are of one GPU
// type, so their counts are summed before they are added.
func CountUsage(usage *quota.Tracker, running []RunningTask) {
	if usage.Reclaims() {
		for i := range running {
			r := &running[i]
			if r.Ending && !r.Ended {
				usage.AddEnding(r.Spec.Role, r.GPUTypes, r.Shares, 1)
			}
			if r.Spec.Guaranteed && !r.Ended {
				usage.AddGuaranteed(r.Spec.Role, r.GPUTypes, r.Shares)
			}
		}
	}
	for i := range running {
		if r := &running[i]; !r.Ended {
			usage.AddUserUsage(r.Spec, r.GPUTypes, r.Shares, 1)
			usage.AddRunningJob(r.Spec)
		}
	}
	role, gpuType, milli := "", "", -1
	flush := func() {
		if milli >= 0 {
			usage.AddMilliGPUs(role, gpuType, milli)
		}
	}
	for i := range running {
		r := &running[i]
		if r.Ended {
			continue
		}
		if len(r.Shares) > 0 {
			usage.AddUsage(r.Spec.Role, nil, r.Shares, 1)
		}
		if n, ok := r.GPUTypes[gpuType]; ok && len(r.GPUTypes) == 1 && milli >= 0 && r.Spec.Role == role {
			milli += n * quota.MilliPerGPU // as the task before; iterating over a map takes longer than a lookup
			continue
		}
		for name, n := range r.GPUTypes {
			flush()
			role, gpuType, milli = r.Spec.Role, name, n*quota.MilliPerGPU
		}
	}
	flush()
}
