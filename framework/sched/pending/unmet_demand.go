package pending

import (
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// The resources that UnmetDemand.Missing names.
const (
	MissingGPUs  = "gpus"
	MissingCPUs  = "cpus"
	MissingMem   = "mem"
	MissingDisk  = "disk"
	MissingPorts = "ports"
)

// UnmetDemand is a group of waiting tasks with equal requirements that would run if machines were added.
type UnmetDemand struct {
	// Request describes the GPUs that each task needs, without the types that its quota excludes. Amount has its other
	// needs, including its executor's.
	Request gpu.Request
	Amount  fit.Amount
	// Constraints lists the constraints that a new machine must meet too.
	Constraints []job.Constraint
	// Missing names the scarce resources: MissingGPUs alone, or other resources where GPUs are free.
	Missing []string
	// Tasks is the number of tasks. GPUs is the number of GPUs that they would hold together, with shares rounded up to
	// whole GPUs; 0 if GPUs are not missing.
	Tasks, GPUs int
	// Jobs and Roles list the tasks' jobs and roles, in placement order.
	Jobs, Roles []string
}

// demandSurvey is FindUnmetDemand in progress.
type demandSurvey struct {
	*placement.Allocator
	// in is the input of the survey. It is not changed.
	in *placement.PlanInput
	// overhead is the executor's usage for each task.
	overhead fit.Amount
	// groups is the result so far, in the order in which their first tasks were found.
	groups []UnmetDemand
	// milliGPUs are the thousandths of GPUs of each group.
	milliGPUs []int
	// byDemand are the indexes of groups, by what their tasks need and which resources are missing.
	byDemand map[string]int
	// constraintsMet reports, by demand, whether machines that meet its constraints could be added.
	constraintsMet map[string]bool
	// newMachines has one agent of each kind that could be added; nil before the first use.
	newMachines []fit.AgentResources
}

// FindUnmetDemand returns the waiting tasks that find no place in the free resources and would find one on added
// machines. It does not modify its arguments; equal inputs give equal results in any order of offers.
func FindUnmetDemand(offers []*fit.Offer, in placement.PlanInput, p placement.Policy) []UnmetDemand {
	cluster, leftoverOf := placement.NewClusterOfOffers(offers, &in, &p)
	s := &demandSurvey{
		Allocator:      placement.NewAllocator(cluster, &in, &p),
		in:             &in,
		overhead:       p.Overhead,
		byDemand:       map[string]int{},
		constraintsMet: map[string]bool{},
	}
	cluster.ReleaseLeftovers(leftoverOf)
	for i := range in.Running {
		if r := &in.Running[i]; r.Ending && !r.Stuck { // its resources are about to be offered
			cluster.ReleaseTask(r, p.Overhead)
		}
	}
	order := queue.NewJobOrder(in.Now, in.Waiting, p.Roles, s.Usage)
	for j, ok := order.Next(); ok; j, ok = order.Next() {
		s.surveyJob(j)
	}
	for i := range s.groups {
		if g := &s.groups[i]; slices.Contains(g.Missing, MissingGPUs) {
			g.GPUs = max((s.milliGPUs[i]+quota.MilliPerGPU-1)/quota.MilliPerGPU, g.Request.GPUs)
		}
	}
	return s.groups
}

// surveyJob places the job as a plan would, and counts its other tasks if machines could be added for them. All tasks of
// a gang count if one is missing, because other jobs may take what is free now.
func (s *demandSurvey) surveyJob(j *queue.WaitingJob) {
	request, n := s.Usage.RestrictGuaranteed(j.Spec, len(j.Tasks))
	if n == 0 {
		return // machines would not help
	}
	if n < len(j.Tasks) { // nor would they help its other tasks
		j = j.WithTasks(n)
	}
	d := j.TaskDemand(s.overhead, s.Cluster.Agents())
	d.Request = request
	got := s.PlaceJob(j, &d)
	missing := len(j.Tasks) - len(got.Places)
	if j.Spec.Gang && missing > 0 {
		s.UndoJob(j, &d, &got)
		missing = len(j.Tasks)
	} else if j.Spec.Guaranteed && s.Usage.Reclaims() {
		for i := range got.Places {
			s.Usage.AddGuaranteed(j.Spec, 1, got.GPUTypes[i], got.Places[i].Shares)
		}
	}
	if missing == 0 {
		return
	}
	if got.AtQuota {
		s.Usage.KeepRest(j.Spec, len(j.Tasks), got.Limit)
		return
	}
	restricted, allowed, limit := s.Usage.RestrictJob(j.Spec, request, len(j.Tasks))
	if j.Spec.Gang && allowed < missing {
		s.Usage.KeepRest(j.Spec, len(j.Tasks), s.Usage.TightestLimit(j.Spec, limit))
		return
	}
	d.Request = restricted
	if n := s.countAddable(j, &d, min(missing, allowed)); n > 0 && request.GPUs > 0 {
		withoutGPUs, otherwise := s.splitByShortage(j, &d, n)
		s.addUnmet(j, &d, withoutGPUs, []string{MissingGPUs})
		s.addUnmet(j, &d, n-withoutGPUs, otherwise)
	}
	if _, left, limit := s.Usage.Restrict(quota.UserOf(j.Spec), request); allowed < missing && left == 0 {
		s.Usage.KeepRest(j.Spec, len(j.Tasks), limit)
	}
}

// splitByShortage returns how many of n tasks without a place lack GPUs, and what the other tasks lack although GPUs
// are free. Either all or none of a gang's tasks lack GPUs.
func (s *demandSurvey) splitByShortage(j *queue.WaitingJob, d *fit.Demand, n int) (withoutGPUs int, missing []string) {
	gpusOnly := *d
	gpusOnly.Amount, gpusOnly.Ports, gpusOnly.HostPorts = fit.Amount{}, 0, nil
	fitting := s.countFits(&gpusOnly, n)
	if fitting == 0 || j.Spec.Gang && fitting < n {
		return n, nil
	}
	return n - fitting, s.findOtherShortages(d, gpusOnly, fitting)
}

// findOtherShortages returns the resources that each alone prevent n tasks from using free GPUs, or all that the tasks
// need if only several together do.
func (s *demandSurvey) findOtherShortages(d *fit.Demand, gpusOnly fit.Demand, n int) (missing []string) {
	var needed []string
	for _, r := range []struct {
		name  string
		needs bool
		add   func(with *fit.Demand)
	}{
		{MissingCPUs, d.Amount.CPUs > 0, func(with *fit.Demand) { with.Amount.CPUs = d.Amount.CPUs }},
		{MissingMem, d.Amount.MemMiB > 0, func(with *fit.Demand) { with.Amount.MemMiB = d.Amount.MemMiB }},
		{MissingDisk, d.Amount.DiskMiB > 0, func(with *fit.Demand) { with.Amount.DiskMiB = d.Amount.DiskMiB }},
		{MissingPorts, d.Ports > 0, func(with *fit.Demand) { with.Ports, with.HostPorts = d.Ports, d.HostPorts }},
	} {
		if !r.needs {
			continue
		}
		needed = append(needed, r.name)
		with := gpusOnly
		r.add(&with)
		if s.countFits(&with, n) < n {
			missing = append(missing, r.name)
		}
	}
	if missing == nil {
		return needed
	}
	return missing
}

// countFits returns how many of n tasks fit now, and takes no places.
func (s *demandSurvey) countFits(d *fit.Demand, n int) int {
	places := s.Cluster.PlaceTasks(d, n)
	s.Cluster.UndoPlacements(d, places)
	return len(places)
}

// addUnmet counts n tasks of a job as unmet demand. They count against the quota of their role like running tasks.
func (s *demandSurvey) addUnmet(j *queue.WaitingJob, d *fit.Demand, n int, missing []string) {
	if n == 0 {
		return
	}
	milli, gpuType := n*s.Usage.MilliPerTask(&d.Request, quota.AllTypes), ""
	if only := d.Request.Types.Named(); len(only) == 1 {
		gpuType = only[0]
	}
	s.Usage.AddMilliGPUs(j.Spec.Role, gpuType, milli)
	s.Usage.AddUserMilliGPUs(j.Spec, gpuType, milli)
	s.Usage.AddRunningJob(j.Spec)
	if j.Spec.Guaranteed && s.Usage.Reclaims() {
		types := s.Usage.GPUTypes()
		if i := slices.IndexFunc(types, func(name string) bool { return name != quota.AllTypes && d.Request.MayUse(name) }); i >= 0 {
			gpuType = types[i]
		}
		s.Usage.AddGuaranteed(j.Spec, n, nil, []gpu.DeviceShare{{Type: gpuType, MilliDevices: milli}})
	}
	key := (&fit.Demand{Amount: d.Amount, Request: d.Request, Constraints: d.Constraints}).Key() + strings.Join(missing, " ")
	i, ok := s.byDemand[key]
	if !ok {
		i = len(s.groups)
		s.byDemand[key], s.milliGPUs = i, append(s.milliGPUs, 0)
		s.groups = append(s.groups, UnmetDemand{Request: d.Request, Amount: d.Amount, Constraints: d.Constraints, Missing: missing})
	}
	g := &s.groups[i]
	g.Tasks += n
	s.milliGPUs[i] += milli
	g.Jobs = append(g.Jobs, j.Spec.Name)
	if !slices.Contains(g.Roles, j.Spec.Role) {
		g.Roles = append(g.Roles, j.Spec.Role)
	}
}

// maxNewMachines limits how many added machines are considered for one job.
const maxNewMachines = 1024

// countAddable returns how many of n tasks could run on added machines. These have any amount of resources free, new
// names, and the attributes of present agents with GPUs. For a gang it returns n or 0.
func (s *demandSurvey) countAddable(j *queue.WaitingJob, d *fit.Demand, n int) int {
	if len(d.Request.Devices.Include) > 0 {
		return 0 // the requested devices are on present agents
	}
	if d.Request.GPUs > 0 && slices.ContainsFunc(d.Constraints, job.Constraint.SelectsGPUTypes) {
		other := *d // added machines have any GPUs, so that only the other constraints matter
		other.Constraints = slices.DeleteFunc(slices.Clone(d.Constraints), job.Constraint.SelectsGPUTypes)
		d = &other
	}
	if len(d.Constraints) == 0 || n == 0 {
		return n
	}
	if !slices.ContainsFunc(d.Constraints, job.Constraint.DependsOnPeers) {
		met, known := s.constraintsMet[d.Key()]
		if !known {
			met = s.countMeetingConstraints(d, 1) > 0
			s.constraintsMet[d.Key()] = met
		}
		if !met {
			return 0
		}
		return n
	}
	met := s.countMeetingConstraints(d, n)
	if j.Spec.Gang && met < n {
		return 0
	}
	return met
}

// countMeetingConstraints returns how many of n tasks the constraints alone allow on added machines.
func (s *demandSurvey) countMeetingConstraints(d *fit.Demand, n int) int {
	var agents []fit.AgentResources
	kinds := s.newMachineKinds()
	each := min(n, max(1, maxNewMachines/len(kinds)))
	for _, kind := range kinds {
		for range each {
			a := kind
			a.ID = fmt.Sprintf("new %d", len(agents)) // no hostname has a space
			a.Hostname, a.Role = a.ID, d.Role
			agents = append(agents, a)
		}
	}
	alone := *d
	alone.Amount, alone.Request, alone.Ports, alone.HostPorts = fit.Amount{}, gpu.Request{}, 0, nil
	return len(fit.NewCluster(agents, fit.PlacementPolicy{Name: "binpack"}, s.in.Now).PlaceTasks(&alone, n))
}

// newMachineKinds returns one agent for each combination of what constraints compare among present agents with GPUs, or
// one without any attributes if there are none.
func (s *demandSurvey) newMachineKinds() []fit.AgentResources {
	if s.newMachines != nil {
		return s.newMachines
	}
	seen := map[string]bool{}
	agents := s.Cluster.Agents()
	for i := range agents {
		a := &agents[i]
		kind := fit.AgentResources{
			Attributes: a.Attributes, Region: a.Region, Zone: a.Zone, Driver: a.Driver, CUDA: a.CUDA, Unreserved: true,
			GPUs: max(a.TotalGPUs, len(a.Inventory)),
		}
		if key := fmt.Sprintf("%+v", kind); a.HasGPUs() && !seen[key] {
			seen[key] = true
			s.newMachines = append(s.newMachines, kind)
		}
	}
	if s.newMachines == nil {
		s.newMachines = []fit.AgentResources{{Unreserved: true}}
	}
	return s.newMachines
}
