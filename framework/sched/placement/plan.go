// Package placement makes one plan: which waiting tasks start on which offers, which offers are held or declined, which
// tasks are preempted, and why each other job waits. A plan is a function of its arguments; equal inputs give equal
// plans in any order of offers. The package keeps no state between plans except memory that it reuses.
package placement

import (
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// PlanInput contains the input of a plan, except the agents that offer resources now.
type PlanInput struct {
	// Now is the time of the plan.
	Now time.Time
	// Waiting are the jobs with tasks to place, oldest first.
	Waiting []queue.WaitingJob
	// Running are the tasks that hold places. They count against quotas, and their ends free resources.
	Running []queue.RunningTask
	// Known are agents that offer nothing now, with the free resources of their last offers if those are recent.
	Known []fit.AgentResources
	// SharedDevices returns the shared devices of an agent, free or not, as the master reports them. It may be nil.
	SharedDevices func(agentID string) []fit.SharedDevice
	// FutileReturns are ids of agents whose offers were returned for another role of late, and not offered to another role.
	FutileReturns map[string]bool
	// Recent is the decayed usage of users. It is nil unless fair share has a half-life.
	Recent *quota.RecentUsage
	// MesosQuotas are the quotas that operators of Mesos have set for roles.
	MesosQuotas []quota.MesosQuota
	// UsedUpBudgets are the budgets of which nothing is left.
	UsedUpBudgets []quota.UsedUpBudget
	// DemandNumbers are the numbers of the waiting jobs' demand keys; nil if no job has a number.
	DemandNumbers queue.DemandNumbers
	// Reservations has the reservations of the last plan, by role.
	Reservations map[string]Reservation
}

// Reservation is a promise to the head of a role.
type Reservation struct {
	Run job.RunID
	// Made is when the job became the head. StartsBy is when it should start at the latest, as predicted then.
	Made, StartsBy time.Time
	// IsNext reports that the job starts once the tasks have ended that are ending or have just ended.
	IsNext bool
}

// NextJobs returns the jobs that are next, by role.
func NextJobs(reservations map[string]Reservation) map[string]job.RunID {
	next := map[string]job.RunID{}
	for role, r := range reservations {
		if r.IsNext {
			next[role] = r.Run
		}
	}
	return next
}

// IsBroken reports whether the job is now predicted to start much later than promised, because earlier predictions were
// wrong.
func (r *Reservation) IsBroken(startsBy time.Time) bool {
	return startsBy.Sub(r.StartsBy) > max(r.StartsBy.Sub(r.Made)/10, 10*time.Minute)
}

// Plan answers every offer once and every waiting task.
type Plan struct {
	// Accept has one entry for each agent and role that receives tasks, in the order of the agents.
	Accept []AgentLaunches
	// Decline lists the offers that no waiting job can use. Hold lists the offers that a waiting job could use with
	// more resources on the same agent. Both are in the order of the agents, returned offers first.
	Decline, Hold []DeclinedOffer
	// Returns are the agents whose offers are returned for another role, as a whole or what the launches leave of them.
	Returns []AgentReturn
	// Preempt are the tasks that must end for a job of higher priority, or because other roles deserve their GPUs.
	Preempt []PreemptionVictim
	// Reservations are the heads for which resources are reserved, by role.
	Reservations map[string]Reservation
	// BlockedClaims says why nothing ends for jobs that wait for what their roles deserve, by run.
	BlockedClaims map[job.RunID]string
	// Unplaced has the reason for each job that still waits, in placement order.
	Unplaced []PendingReason
}

// AgentReturn is an agent whose offers to a role are returned, so that Mesos offers them to other roles.
type AgentReturn struct {
	AgentID, Role string
	// Takers are the roles with a smaller share for which they are returned; nil if they are returned for a claim.
	Takers []string
}

// AgentLaunches are the tasks to launch on all offers of one agent to one role.
type AgentLaunches struct {
	// AgentURL is the base URL of the agent's API, as its offers report it.
	AgentID, Hostname, AgentURL string
	// Role is the role that the offers are allocated to.
	Role     string
	OfferIDs []string
	Launches []TaskLaunch
	// LastOfferAt is when the last of the offers arrived. A plan does not set it.
	LastOfferAt time.Time
	// Refuse is how long Mesos need not offer the rest again.
	Refuse time.Duration
}

// TaskLaunch is one task to start.
type TaskLaunch struct {
	// TaskID is the waiting attempt, Index that of the task in its job.
	TaskID string
	Index  int
	// Run is the number of the job's run, Attempt that of the task's attempt. A plan does not set them.
	Run     int
	Attempt int
	// Spec is shared with the queue and must not be changed. FetchHosts are the hosts from which the agent may fetch the
	// job's files, nil for every host. The scheduler sets it when it records the launch: it is empty in a plan.
	Spec       *job.Spec
	FetchHosts job.FetchHosts
	// DeviceIDs are the GPUs of the task if the agent names devices. GPUTypes counts those that are not shared by product.
	DeviceIDs []string
	GPUTypes  map[string]int
	// Shares are the task's parts of shared devices, or all of them. DeviceIDs includes those devices, GPUTypes does not.
	Shares []gpu.DeviceShare
	// Overhead is for the task's executor.
	Overhead fit.Amount
	// Host is the agent's host name, Ports are the task's host ports. Peers are the addresses of all tasks of a gang.
	Host  string
	Ports []int
	Peers []job.GangPeer
	// Values is the task's combination of the job's matrix.
	Values map[string]string
	// Waited is how long only a place was missing. A plan does not set it.
	Waited time.Duration
}

// Environment returns the variables that the scheduler sets for the task, those of its job included.
func (l *TaskLaunch) Environment() map[string]string {
	return l.Spec.TaskEnvironment(job.AttemptContext{
		Run:     job.RunID{Name: l.Spec.Name, Run: l.Run},
		Index:   l.Index,
		Attempt: l.Attempt,
		Values:  l.Values,
		Host:    l.Host,
		Ports:   l.Ports,
		Peers:   l.Peers,
	})
}

// DeclinedOffer is an offer that no task takes now.
type DeclinedOffer struct {
	OfferID string
	// Reason is a sentence for logs; Category is its metric label.
	Reason   string
	Category DeclineReason
	Refuse   time.Duration
}

// DeclineReason is the category of a declined offer.
type DeclineReason string

const (
	// DeclineIdle: no task waits.
	DeclineIdle DeclineReason = "idle"
	// DeclineUnwanted: tasks wait, but none can use the agent.
	DeclineUnwanted DeclineReason = "unwanted"
	// DeclineHeld: a waiting task could use the offer with more resources, which did not arrive while it was held.
	DeclineHeld DeclineReason = "held"
	// DeclineReturnedToRole: the offer is returned so that Mesos offers it to another role.
	DeclineReturnedToRole DeclineReason = "yielded"
	// DeclineCordoned: the agent is cordoned.
	DeclineCordoned DeclineReason = "cordoned"
	// DeclineLostLaunches: the agent lost the last launches.
	DeclineLostLaunches DeclineReason = "lost_launches"
)

// PreemptionVictim is a task that must end to make room.
type PreemptionVictim struct {
	// TaskID is a running task: of the same role and a lower priority, or of a role that borrows.
	TaskID string
	// ForJob is the job that needs the place. DeservedBy is its role if the role deserves the place, "" if the job has the
	// higher priority. Claim is what the role does, such as "deserves the GPUs".
	ForJob            job.RunID
	DeservedBy, Claim string
}
