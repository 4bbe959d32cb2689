// Package queue holds the jobs that wait and the tasks that run, and decides the order in which waiting jobs are
// placed: roles by fair share, jobs of one role by priority and the role's order. It does not decide where tasks run.
package queue

import (
	"hash/fnv"
	"math"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// WaitingJob is a job with tasks that wait for a place.
type WaitingJob struct {
	// Spec is shared with the job and must not be changed. Run is the number of the run: jobs of two owners may have one name.
	Spec *job.Spec
	Run  int
	// Submitted is the time of submission. Zero means now.
	Submitted time.Time
	// Tasks are the tasks that may be placed now, in index order.
	Tasks []WaitingTask
	// PeerAgents are the agents of the job's placed tasks, and of those of its group, one entry a task. Constraints such
	// as UNIQUE depend on them.
	PeerAgents []string
	// ImageExclusions are constraints that keep the tasks off agents that cannot run their image.
	ImageExclusions []job.Constraint
	// PredictedRunTime is how long the tasks run if the job declares no run time, 0 if that is not predicted.
	PredictedRunTime time.Duration
	// DemandNumber identifies the job's DemandKey in the DemandNumbers of the same queue. 0 means not computed yet.
	DemandNumber int32
	// AwaitsOffers reports that GPUs may be free that Mesos has had no time to offer since the job was submitted: no task of
	// another role ends for it.
	AwaitsOffers bool
	// Lowered jobs follow all others: a budget of theirs is used up.
	Lowered bool
}

// WaitingTask is one task of a WaitingJob.
type WaitingTask struct {
	// ID is the attempt, Index the task's position in its job.
	ID    string
	Index int
}

// RunningTask is a task that holds a place on an agent.
type RunningTask struct {
	TaskID, AgentID string
	// Spec is shared with the job and must not be changed. Run is the number of its run.
	Spec *job.Spec
	Run  int
	// GPUTypes counts the task's whole GPUs by product. DeviceIDs are its devices if the agent names them, Shares its parts
	// of shared devices, Ports its host ports.
	GPUTypes  map[string]int
	DeviceIDs []string
	Shares    []gpu.DeviceShare
	Ports     []int
	// Since is when the task started or was placed. Ends is when it ends at the latest, zero if that is unknown.
	Since, Ends time.Time
	// FreedPart has the part of an ended task's place that has not been offered to its role and is not in use again, nil for
	// all of it.
	FreedPart *fit.TaskResources
	// Ending tasks were asked to end, or have ended and Mesos has not offered their resources again.
	Ending bool
	// Ended tasks have ended: they no longer count against a quota.
	Ended bool
	// OfferedElsewhere is set for an ended task if FreedPart is in an offer to another role. That role may return it.
	OfferedElsewhere bool
	// Stuck tasks do not free their place when asked: their agent is unreachable, cordoned or draining, or the task has
	// ignored a kill.
	Stuck bool
	// Lowered tasks are those of lowered jobs: other jobs of the role may preempt them.
	Lowered bool
}

// RunID returns the name and number of the job's run.
func (j *WaitingJob) RunID() job.RunID { return job.RunID{Name: j.Spec.Name, Run: j.Run} }

// RunID returns the run to which the task belongs.
func (r *RunningTask) RunID() job.RunID { return job.RunID{Name: r.Spec.Name, Run: r.Run} }

// ExpectedRunTime returns how long the job's tasks probably run: the declared run time, or else the predicted one, or
// else the timeout, or else 0. Nothing but the order and the plans depends on it.
func (j *WaitingJob) ExpectedRunTime() time.Duration {
	if j.Spec.RunTime == 0 && j.PredictedRunTime > 0 {
		return j.PredictedRunTime
	}
	return j.Spec.ExpectedRunTime()
}

// loweredPriority is below the priority of any job.
const loweredPriority = math.MinInt

// Priority returns the priority by which the job preempts tasks of its role.
func (j *WaitingJob) Priority() int {
	if j.Lowered {
		return loweredPriority
	}
	return j.Spec.Priority
}

// Priority returns the priority of the task against preemption.
func (r *RunningTask) Priority() int {
	if r.Lowered {
		return loweredPriority
	}
	return r.Spec.Priority
}

// Resources returns the resources that the task frees when it ends, and of an ended task those that are about to be offered.
// overhead is the usage of its executor.
func (r *RunningTask) Resources(overhead fit.Amount) fit.TaskResources {
	if r.FreedPart != nil {
		return *r.FreedPart
	}
	h := fit.TaskResources{Amount: TaskAmount(r.Spec, overhead), Shares: r.Shares, Ports: r.Ports}
	h.GPUs, h.DeviceIDs = gpu.ExcludeShared(r.Spec.Request.GPUs, r.DeviceIDs, r.Shares)
	return h
}

// Holding returns what the task holds of what its role deserves.
func (r *RunningTask) Holding() *quota.Holding {
	return &quota.Holding{
		Role:      r.Spec.Role,
		HoldsGPUs: r.Spec.Request.GPUs > 0,
		Types:     r.GPUTypes,
		Shares:    r.Shares,
		Amount:    quota.AmountOf(r.Spec),
	}
}

// TaskAmount returns the CPUs, memory and disk of one task and its executor.
func TaskAmount(s *job.Spec, overhead fit.Amount) fit.Amount {
	return fit.Amount{CPUs: s.CPUs, MemMiB: s.MemMiB, DiskMiB: s.DiskMiB}.Plus(overhead)
}

// TaskDemand returns what each task of the job needs of an agent. agents are the known agents, sorted by id; only
// constraints that depend on peers read them. morePeers are agents that the current plan has given to the job's group.
func (j *WaitingJob) TaskDemand(overhead fit.Amount, agents []fit.AgentResources, morePeers ...string) fit.Demand {
	s := j.Spec
	d := fit.Demand{
		Job: s.Name, Role: s.Role, Amount: TaskAmount(s, overhead), Overhead: overhead, Ports: hostPortCount(s), HostPorts: hostPortNumbers(s),
		Request: s.Request, Constraints: append(slices.Clip(s.Constraints), j.ImageExclusions...), RunTime: s.ExpectedRunTime(),
	}
	if d.Ports > 0 && len(j.Tasks) > 0 {
		d.PortSeed = hashText(j.Tasks[0].ID)
	}
	if j.DependsOnPeers() {
		for _, id := range slices.Concat(j.PeerAgents, morePeers) {
			if a := fit.FindAgentByID(agents, id); a != nil {
				d.PeerAgents = append(d.PeerAgents, a)
			}
		}
	}
	return d
}

// hashText returns the FNV-1a hash of a text. Each attempt of a task has another ID, so that a retry draws other ports.
func hashText(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// WithTasks returns a copy of the job with the first n of its tasks.
func (j *WaitingJob) WithTasks(n int) *WaitingJob {
	some := *j
	some.Tasks = j.Tasks[:n:n]
	return &some
}

// DependsOnPeers reports whether a constraint of the job compares an agent with those of the job's other tasks.
func (j *WaitingJob) DependsOnPeers() bool {
	return slices.ContainsFunc(j.Spec.Constraints, job.Constraint.DependsOnPeers)
}

// hostPortCount returns the number of host ports of one task. Tasks of a gang have at least one, for their peers.
func hostPortCount(s *job.Spec) int {
	if s.Gang && s.Tasks > 1 {
		return max(len(s.Ports), 1)
	}
	return len(s.Ports)
}

// hostPortNumbers returns the fixed number of each host port of the job, 0 for any port; nil if no port is fixed.
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

// FixedHostPorts returns the host ports that waiting jobs request by number.
func FixedHostPorts(jobs []WaitingJob) []int {
	var ports []int
	for i := range jobs {
		for _, p := range jobs[i].Spec.Ports {
			if p.Host > 0 {
				ports = append(ports, p.Host)
			}
		}
	}
	return ports
}

// GroupKey identifies jobs whose tasks are counted together by constraints.
type GroupKey struct{ Role, Name string }

// GroupKeyOf returns the group of a job. Jobs without a group have an empty Name.
func GroupKeyOf(spec *job.Spec) GroupKey { return GroupKey{spec.Role, spec.Group} }

// DemandKey returns a key that is equal for demands that fit the same agents at all times. It leaves out the run time
// and whether reservations apply, which change from plan to plan.
func DemandKey(d *fit.Demand, s *job.Spec) string {
	fixed := *d
	fixed.RunTime, fixed.AvoidReserved = 0, false
	key := fixed.Key()
	if s.Gang {
		key += "gang"
	}
	return key
}

// DemandNumbers numbers demand keys from 1, so that plans compare numbers instead of strings.
type DemandNumbers map[string]int32

// NumberOf returns the number of a key, and assigns the next one to a new key.
func (n DemandNumbers) NumberOf(key string) int32 {
	number, ok := n[key]
	if !ok {
		number = int32(len(n) + 1)
		n[key] = number
	}
	return number
}
