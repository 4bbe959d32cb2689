package placement

import (
	"slices"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
)

// Allocator gives waiting jobs places on a cluster within the quotas of their roles and the limits of their users. It belongs to one goroutine.
type Allocator struct {
	// Cluster is where places are taken. Every place that is given changes it.
	Cluster *PartitionedCluster
	// Usage has the resources that roles hold: running tasks and the places that this allocator gave.
	Usage *quota.Tracker
}

// NewAllocator returns an allocator that takes places from the cluster, which it changes.
func NewAllocator(c *PartitionedCluster, in *PlanInput, p *Policy) *Allocator {
	a := &Allocator{Cluster: c, Usage: quota.NewTracker(queue.Entitlements(p.Roles), c.agents)}
	if p.PursuesEntitlements() {
		a.Usage.PursueEntitlements()
	}
	queue.CountUsage(a.Usage, in.Running)
	a.Usage.SetRecentUsage(in.Recent)
	a.Usage.SetMesosQuotas(in.MesosQuotas)
	a.Usage.SetUsedUpBudgets(in.UsedUpBudgets)
	if p.PursuesEntitlements() {
		queue.AddDemand(a.Usage, in.Waiting)
		a.Usage.UpdateEntitlements()
	}
	fixed := queue.FixedHostPorts(in.Waiting)
	for _, partition := range c.partitions {
		partition.AvoidPorts(fixed)
	}
	return a
}

// JobPlacements are the places that a job received.
type JobPlacements struct {
	// Places are in the order of the job's tasks, for the first of them.
	Places []fit.Placement
	// GPUTypes counts the whole GPUs of each place by product.
	GPUTypes []map[string]int
	// Limit is the quota limit that prevents more places or excludes some GPU types, or nil. AtQuota reports that the
	// limit alone prevents more places.
	Limit   *quota.Limit
	AtQuota bool
	// startsJob reports that the job had no placed tasks before.
	startsJob bool
}

// PlaceJob takes places for the job's tasks, as many as agents and the role's quota allow. It changes d to request only
// GPU types that the quota allows, and adds the agents of the places to its peers if constraints depend on them.
func (a *Allocator) PlaceJob(j *queue.WaitingJob, d *fit.Demand) (got JobPlacements) {
	request := d.Request
	if limit := a.Usage.RunningJobsLimit(j.Spec); limit != nil {
		got.Limit, got.AtQuota = limit, true
		return got
	}
	if request.NeedsSameType() {
		return a.placeTogether(j, d)
	}
	for left := len(j.Tasks); left > 0; left = len(j.Tasks) - len(got.Places) {
		restricted, allowed, limit := a.Usage.Restrict(quota.UserOf(j.Spec), request)
		if allowed == 0 {
			got.Limit, got.AtQuota = limit, true
			return got
		}
		d.Request = restricted
		n := min(left, allowed)
		if a.placeTasks(j, d, n, &got) < n {
			got.Limit = limit
			return got
		}
	}
	return got
}

// placeTogether is PlaceJob for tasks whose GPUs are of one type: the quota must allow all of them.
func (a *Allocator) placeTogether(j *queue.WaitingJob, d *fit.Demand) (got JobPlacements) {
	n := len(j.Tasks)
	restricted, ok, limit := a.Usage.RestrictTogether(quota.UserOf(j.Spec), d.Request, n)
	if !ok {
		got.Limit, got.AtQuota = limit, true
		return got
	}
	d.Request = restricted
	if a.placeTasks(j, d, n, &got) < n {
		got.Limit = limit
	}
	return got
}

// placeTasks adds places for up to n tasks to those of the job, and returns their number.
func (a *Allocator) placeTasks(j *queue.WaitingJob, d *fit.Demand, n int, got *JobPlacements) int {
	places := a.Cluster.PlaceTasks(d, n)
	for i := range places {
		types := countGPUTypes(&a.Cluster.agents[places[i].Agent], &places[i], d.Request.GPUs)
		a.Usage.AddUsage(j.Spec.Role, types, places[i].Shares, 1)
		a.Usage.AddUserUsage(j.Spec, types, places[i].Shares, 1)
		a.Usage.AddHostUsage(j.Spec, 1)
		got.GPUTypes = append(got.GPUTypes, types)
	}
	if len(places) > 0 && a.Usage.AddRunningJob(j.Spec) {
		got.startsJob = true
	}
	got.Places = append(got.Places, places...)
	if j.DependsOnPeers() {
		d.PeerAgents = slices.Clip(d.PeerAgents)
		for i := range places {
			d.PeerAgents = append(d.PeerAgents, &a.Cluster.agents[places[i].Agent])
		}
	}
	return len(places)
}

// UndoJob frees the places of a job and removes their agents from the peers of d, to which PlaceJob added them.
func (a *Allocator) UndoJob(j *queue.WaitingJob, d *fit.Demand, got *JobPlacements) {
	a.Cluster.UndoPlacements(d, got.Places)
	for i := range got.GPUTypes {
		a.Usage.AddUsage(j.Spec.Role, got.GPUTypes[i], got.Places[i].Shares, -1)
		a.Usage.AddUserUsage(j.Spec, got.GPUTypes[i], got.Places[i].Shares, -1)
		a.Usage.AddHostUsage(j.Spec, -1)
	}
	if got.startsJob {
		a.Usage.RemoveRunningJob(j.Spec)
	}
	if j.DependsOnPeers() {
		d.PeerAgents = d.PeerAgents[:len(d.PeerAgents)-len(got.Places)]
	}
	got.Places, got.GPUTypes, got.startsJob = nil, nil, false
}
