package sched

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// UnmetDemand is what tasks of one wish wait for though nothing but what is in use is
// in their way: machines that were added would run them.
type UnmetDemand struct {
	// Request is what each task wants of one agent, less the types that its
	// role may hold no more of; Amount what else, the executor's part included.
	Request gpu.Request
	Amount  Amount
	// Constraints are those that a new machine must meet too.
	Constraints []job.Constraint
	// Missing is what there is too little of: MissingGPUs alone, or what else where
	// GPUs are free.
	Missing []string
	// Tasks is how many lack a place, GPUs what they would hold together: for
	// shares of devices as many as those are worth. It is 0 where GPUs are not
	// what is short.
	Tasks, GPUs int
	// Jobs and Roles are whose they are, in the order in which they choose.
	Jobs, Roles []string
}

// settleTime is how long a task must have waited, with a subscription, before it
// lacks anything: offers may be on their way.
const settleTime = freedPlaceTimeout

// UnmetDemand says what the tasks that wait lack, those first that choose first,
// as far as the last offers tell. ok is false as long as these are not here.
func (s *State) UnmetDemand() (lacks []UnmetDemand, ok bool) {
	if !s.connected || s.subscribedAt.After(s.now.Add(-settleTime)) {
		return nil, false
	}
	q := s.newPlacementQueue(s.now)
	q.Waiting = slices.DeleteFunc(q.Waiting, func(w WaitingJob) bool { return s.isRecentlyQueued(&w) })
	q.Known = s.agentsWithLeftovers(s.now)
	offers := slices.DeleteFunc(s.heldOffers(), func(o Offer) bool { return s.isClosed(o.Hostname, o.AgentID) })
	return FindUnmetDemand(offers, q, s.cfg.Policy), true
}

// RecentlyQueuedJobs are the jobs with GPUs that Lacking leaves out for now: they wait for
// less than settle.
func (s *State) RecentlyQueuedJobs() (names []string) {
	q := s.newPlacementQueue(s.now)
	for i := range q.Waiting {
		if w := &q.Waiting[i]; w.Spec.Request.GPUs > 0 && s.isRecentlyQueued(w) {
			names = append(names, w.Spec.Name)
		}
	}
	return names
}

func (s *State) isRecentlyQueued(w *WaitingJob) bool {
	return s.lastQueuedAt(w).After(s.now.Add(-settleTime))
}

// lastQueuedAt is when the last of a job's tasks began to wait for a place.
func (s *State) lastQueuedAt(w *WaitingJob) time.Time {
	var last time.Time
	for _, t := range w.Tasks {
		if since := s.tasks[t.ID].get().WaitingSince(); since.After(last) {
			last = since
		}
	}
	return last
}

// FindUnmetDemand says what of the queue finds no place on what is free, and would on
// machines that were added. It does not modify its arguments; equal inputs
// give equal answers in any offer order.
func FindUnmetDemand(offers []Offer, q PlacementQueue, p Policy) []UnmetDemand {
	pl := newPlannerForOffers(offers, &q, &p)
	pl.cluster = pl.clusterWithLeftovers(nil)
	for i := range q.Running {
		if r := &q.Running[i]; r.Ending && !r.Stuck { // what it has comes back
			releaseTask(pl.cluster, r, &p)
		}
	}
	s := &demandSurvey{planner: pl, byDemand: map[string]int{}, constraintsMet: map[string]bool{}}
	for {
		j, ok := pl.order.nextJob()
		if !ok {
			break
		}
		s.surveyJob(j)
	}
	for i := range s.groups {
		if l := &s.groups[i]; slices.Contains(l.Missing, MissingGPUs) {
			l.GPUs = max((s.milliGPUs[i]+milliPerGPU-1)/milliPerGPU, l.Request.GPUs)
		}
	}
	return s.groups
}

// demandSurvey is the answer of Lacking in the making.
type demandSurvey struct {
	*planner
	groups         []UnmetDemand
	milliGPUs      []int // of each, in thousandths of GPUs
	byDemand       map[string]int
	constraintsMet map[string]bool      // by demand: machines could be added that meet its constraints
	machineKinds   []fit.AgentResources // one of each kind that could be
}

// surveyJob gives the job the places there are, as a plan would, and finds out for
// how many of its other tasks machines could be added. Of a gang these are all
// or none: what is free now others may take meanwhile.
func (s *demandSurvey) surveyJob(j *WaitingJob) {
	d := j.taskDemand(s.policy, s.agentsForPeers(j), s.groupAgents[groupKeyOf(j.Spec)]...)
	wish := d.Request
	spots, types, b, quota := s.fillPlacements(j, &d)
	n := len(j.Tasks) - len(spots)
	if n == 0 {
		return
	}
	if j.Spec.Gang {
		s.undoPlacements(j, &d, spots, types)
		spots, n = nil, len(j.Tasks)
	}
	if quota {
		s.blockOnQuota(j, b)
		return
	}
	narrowed, may, b := s.usage.restrictToQuota(j.Spec.Role, wish)
	if j.Spec.Gang && may < n {
		s.blockOnQuota(j, s.usage.tightestLimit(j, b))
		return
	}
	d.Request = narrowed
	if more := s.countAddable(j, &d, min(n, may)); more > 0 && wish.GPUs > 0 {
		lackGPUs, plain := s.splitByShortage(j, &d, spots, more)
		s.addUnmet(j, &d, lackGPUs, []string{MissingGPUs})
		s.addUnmet(j, &d, more-lackGPUs, plain)
	}
	if _, left, b := s.usage.restrictToQuota(j.Spec.Role, wish); may < n && left == 0 {
		s.blockOnQuota(j, b)
	}
}

// addUnmet counts tasks of a job that lack a place, for their role's quota too.
func (s *demandSurvey) addUnmet(j *WaitingJob, d *fit.Demand, n int, short []string) {
	if n == 0 {
		return
	}
	milli := n * s.usage.milliGPUsPerTask(&d.Request, AllTypes)
	kind := ""
	if only := d.Request.Types.Include; len(only) == 1 {
		kind = gpu.TypeOf(only[0])
	}
	s.usage.addMilliGPUs(j.Spec.Role, kind, milli)
	key := (&fit.Demand{Amount: d.Amount, Request: d.Request, Constraints: d.Constraints}).Key() + strings.Join(short, " ")
	i, ok := s.byDemand[key]
	if !ok {
		i = len(s.groups)
		s.byDemand[key], s.milliGPUs = i, append(s.milliGPUs, 0)
		s.groups = append(s.groups, UnmetDemand{Request: d.Request, Amount: d.Amount, Constraints: d.Constraints, Missing: short})
	}
	l := &s.groups[i]
	l.Tasks += n
	s.milliGPUs[i] += milli
	l.Jobs = append(l.Jobs, j.Spec.Name)
	if !slices.Contains(l.Roles, j.Spec.Role) {
		l.Roles = append(l.Roles, j.Spec.Role)
	}
}

// maxNewMachines bounds the machines that are thought of for one job.
const maxNewMachines = 1024

// countAddable is how many of n tasks could run on machines that were added. What
// they have free, nobody can know, but not their names, and of attributes only
// those that agents with GPUs have. All of a gang can, or none.
func (s *demandSurvey) countAddable(j *WaitingJob, d *fit.Demand, n int) int {
	if len(d.Request.Devices.Include) > 0 {
		return 0 // which are elsewhere
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

// countMeetingConstraints is how many of n tasks new machines would have by the demand's
// constraints alone.
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
	alone.Amount, alone.Request, alone.Ports, alone.HostPorts = Amount{}, gpu.Request{}, 0, nil
	return len(fit.NewCluster(agents, fit.PlacementPolicy{Name: "binpack"}, s.queue.Now).PlaceTasks(&alone, n))
}

// newMachineKinds are the kinds of machines that could be added: such as there are, by
// what constraints see of them, or where there is none, one that says nothing.
func (s *demandSurvey) newMachineKinds() []fit.AgentResources {
	if s.machineKinds != nil {
		return s.machineKinds
	}
	seen := map[string]bool{}
	for i := range s.agents {
		a := &s.agents[i]
		kind := fit.AgentResources{
			Attributes: a.Attributes, Region: a.Region, Zone: a.Zone, Driver: a.Driver, CUDA: a.CUDA, Unreserved: true,
			GPUs: max(a.TotalGPUs, len(a.Inventory)),
		}
		if key := fmt.Sprintf("%+v", kind); a.HasGPUs() && !seen[key] {
			seen[key] = true
			s.machineKinds = append(s.machineKinds, kind)
		}
	}
	if s.machineKinds == nil {
		s.machineKinds = []fit.AgentResources{{Unreserved: true}}
	}
	return s.machineKinds
}
