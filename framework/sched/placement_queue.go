package sched

import (
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// PlacementQueue is what wants places, and what has some already.
type PlacementQueue struct {
	// Now is the time of the plan.
	Now time.Time
	// Waiting are the jobs with tasks to place, oldest first.
	Waiting []WaitingJob
	// Running are the tasks that hold places: they count against quotas, and
	// their ends are what those who wait, wait for.
	Running []RunningTask
	// Known are agents that offer nothing now, with what they had free when
	// they did, as far as that was not long ago.
	Known []fit.AgentResources
	// AllShared is what there is of shared devices, free or not, by agent, as
	// far as the master has told.
	AllShared map[string][]fit.SharedDevice
	// ReturnedAgents are the agents, by id, whose offers were given back for another
	// role not long ago.
	ReturnedAgents map[string]bool
	// demandNumbers are what Job.wish numbers; nil where no job has one.
	demandNumbers demandNumbers
}

// WaitingJob is a job with tasks that wait for a place.
type WaitingJob struct {
	Spec *job.Spec
	// Submitted is when it came; zero is just now.
	Submitted time.Time
	// Tasks are those that wait, in index order.
	Tasks []WaitingTask
	// PeerAgents are the agents of its tasks that are placed, and of those of its
	// group, one each.
	PeerAgents []string
	// ImageExclusions keeps them off agents that their image cannot run on.
	ImageExclusions []job.Constraint
	// demand is the number of its demandNumberOf, where somebody has found out: it takes
	// long.
	demand int32
}

// WaitingTask is one task that wants a place.
type WaitingTask struct {
	ID    string
	Index int
}

// RunningTask is a task with a place.
type RunningTask struct {
	TaskID, AgentID string
	Spec            *job.Spec
	GPUTypes        map[string]int
	DeviceIDs       []string
	Shares          []gpu.DeviceShare
	Ports           []int
	// Since is when it was placed. Ends is when it will have ended at the
	// latest, zero where nobody knows.
	Since, Ends time.Time
	// Ending tasks have been asked to end, or have ended just now.
	Ending bool
	// Ended: it has ended, and counts against no quota any more.
	Ended bool
	// Stuck tasks will not make room when asked: their agent is away, cordoned
	// or being drained, or they have been asked for too long.
	Stuck bool
}

// jobOrder hands out the jobs in the order in which they may choose: roles by
// their share, within a role by priority, then in the role's order.
type jobOrder struct {
	jobs   []WaitingJob
	queues map[string][]int
	usage  *quotaTracker
	// lastRole is whose turn it was, and held what it then held; below 0 before.
	lastRole string
	lastHeld int
}

func newJobOrder(q *PlacementQueue, p *Policy, l *quotaTracker) *jobOrder {
	t := &jobOrder{jobs: q.Waiting, queues: map[string][]int{}, usage: l, lastHeld: -1}
	for from := 0; from < len(q.Waiting); {
		role, to := q.Waiting[from].Spec.Role, from+1
		for to < len(q.Waiting) && q.Waiting[to].Spec.Role == role {
			to++
		}
		list := t.queues[role]
		for i := from; i < to; i++ {
			list = append(list, i)
		}
		t.queues[role], from = list, to
	}
	for name, list := range t.queues {
		p.roleNamed(name).sortJobs(q, list)
	}
	return t
}

func (t *jobOrder) nextJob() (*WaitingJob, bool) {
	left := t.queues[t.lastRole]
	if len(left) == 0 || t.usage.total[t.lastRole] != t.lastHeld { // else nothing has changed since
		role, ok := t.usage.nextRoleByShare(t.queues)
		if !ok {
			return nil, false
		}
		t.lastRole, t.lastHeld, left = role, t.usage.total[role], t.queues[role]
	}
	t.queues[t.lastRole] = left[1:]
	return &t.jobs[left[0]], true
}

// countTasks counts what tasks hold, as newQuotaTracker does. Those of a role mostly follow
// each other and are of one type: they are counted together.
func (l *quotaTracker) countTasks(running []RunningTask) {
	role, kind, milli := "", "", -1
	flush := func() {
		if milli >= 0 {
			l.addMilliGPUs(role, kind, milli)
		}
	}
	for i := range running {
		r := &running[i]
		if r.Ended {
			continue
		}
		for t, n := range r.GPUTypes {
			if milli < 0 || t != kind || r.Spec.Role != role {
				flush()
				role, kind, milli = r.Spec.Role, t, 0
			}
			milli += n * milliPerGPU
		}
		if len(r.Shares) > 0 {
			l.addUsage(r.Spec.Role, nil, r.Shares, 1)
		}
	}
	flush()
}

// taskDemand is what each task of the job wants of an agent. more are agents that
// its group was given since.
func (j *WaitingJob) taskDemand(p *Policy, agents map[string]*fit.AgentResources, more ...string) fit.Demand {
	s := j.Spec
	d := fit.Demand{
		Job: s.Name, Role: s.Role, Amount: p.taskAmount(s), Overhead: p.Overhead, Ports: hostPortCount(s), HostPorts: hostPortNumbers(s),
		Request: s.Request, Constraints: append(slices.Clip(s.Constraints), j.ImageExclusions...), RunTime: s.ExpectedRunTime(),
	}
	if slices.ContainsFunc(s.Constraints, job.Constraint.DependsOnPeers) {
		for _, id := range slices.Concat(j.PeerAgents, more) {
			if a := agents[id]; a != nil {
				d.PeerAgents = append(d.PeerAgents, a)
			}
		}
	}
	return d
}

// hostPortCount counts the host ports of one task: those asked for, and in a gang the
// one its peers reach it by.
func hostPortCount(s *job.Spec) int {
	if s.Gang && s.Tasks > 1 {
		return max(len(s.Ports), 1)
	}
	return len(s.Ports)
}

// hostPortNumbers are the numbers that the job wants its host ports to have.
func hostPortNumbers(s *job.Spec) []int {
	if !slices.ContainsFunc(s.Ports, func(p job.Port) bool { return p.Host > 0 }) {
		return nil
	}
	numbers := make([]int, len(s.Ports))
	for i, p := range s.Ports {
		numbers[i] = p.Host
	}
	return numbers
}

// requestedHostPorts are the host ports that jobs wait for by number.
func requestedHostPorts(jobs []WaitingJob) []int {
	var named []int
	for i := range jobs {
		for _, p := range jobs[i].Spec.Ports {
			if p.Host > 0 {
				named = append(named, p.Host)
			}
		}
	}
	return named
}

// countGPUTypes counts the types of the whole GPUs that a place has.
func countGPUTypes(a *fit.AgentResources, spot *fit.Placement, gpus int) map[string]int {
	if gpus == 0 || spot.Shares != nil {
		return nil
	}
	types := map[string]int{}
	for _, id := range spot.DeviceIDs {
		model := ""
		if i := slices.IndexFunc(a.Inventory, func(d gpu.Device) bool { return d.UUID == id }); i >= 0 {
			model = a.Inventory[i].Model
		} else if len(a.Types) == 1 {
			model = a.Types[0]
		}
		types[gpu.TypeOf(model)]++
	}
	if n := gpus - len(spot.DeviceIDs); n > 0 {
		types[combinedType(a)] += n
	}
	return types
}

// combinedType is the type of an agent's GPUs, "A|B" where there are several.
func combinedType(a *fit.AgentResources) string {
	types := gpuTypesOn(a)
	slices.Sort(types)
	return strings.Join(types, "|")
}

// gpuTypesOn lists the types of an agent's GPUs, "" for those of no known one.
func gpuTypesOn(a *fit.AgentResources) []string {
	var types []string
	for _, m := range a.Models() {
		if t := gpu.TypeOf(m); !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}
