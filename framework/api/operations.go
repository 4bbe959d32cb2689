package api

import (
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// QueuedJob is a job with tasks that wait for resources.
type QueuedJob struct {
	// Position is the position in the queue, from 1.
	Position int    `json:"position"`
	Name     string `json:"name"`
	// Run is the number of the job's run, Number and Owner are as in JobView.
	Run       int       `json:"run"`
	Number    int       `json:"number,omitempty"`
	Owner     string    `json:"owner,omitempty"`
	Role      string    `json:"role"`
	Priority  int       `json:"priority"`
	Submitted time.Time `json:"submitted"`
	// State and TaskStates are defined as in JobView.
	State      job.State         `json:"state"`
	TaskStates map[job.State]int `json:"task_states"`
	// Waiting is the number of its Tasks that wait.
	Tasks   int `json:"tasks"`
	Waiting int `json:"waiting"`
	// GPUs is the request of each task, such as "2 x A100"; "" for none.
	GPUs string `json:"gpus"`
	// Reason is the WaitReason of JobView.
	Reason string `json:"reason"`
	// Start is an estimate of when its next task starts; nil if none exists.
	Start *StartEstimate `json:"start,omitempty"`
}

// RunID returns the run that waits.
func (j *QueuedJob) RunID() job.RunID { return job.RunID{Name: j.Name, Run: j.Run} }

// StartEstimate is an estimate of when a waiting job starts. It assumes that no more jobs are submitted, and that tasks
// run as long as similar ones did.
type StartEstimate struct {
	// Expected is the median.
	Expected time.Time `json:"expected"`
	// Within50 and Within90 are the bounds between which the job starts with a probability of 50 and 90 %.
	Within50 TimeRange `json:"within_50"`
	Within90 TimeRange `json:"within_90"`
	// Agents are the hosts on which its first tasks probably start; empty if that depends on which tasks end first.
	Agents []string `json:"agents,omitempty"`
}

// TimeRange is a time between two times.
type TimeRange struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// QueueList is the response to GET /v1/queue.
type QueueList struct {
	Jobs []QueuedJob `json:"jobs"`
	Next string      `json:"next,omitempty"`
}

// RoleStatus is the present state of a role.
type RoleStatus struct {
	Name     string  `json:"name"`
	Weight   float64 `json:"weight"`
	Order    string  `json:"order"`
	Policy   string  `json:"policy"`
	Backfill bool    `json:"backfill"`
	// Quota limits GPUs by type, and "*" all GPUs. QuotaSet means that an operator has
	// replaced the quota of the roles file.
	Quota    map[string]int `json:"quota"`
	QuotaSet bool           `json:"quota_set"`
	// MesosQuota is the quota of GPUs that an operator of Mesos has set for the role; nil
	// without one.
	MesosQuota *MesosQuota `json:"mesos_quota,omitempty"`
	// Allocated is the number of GPUs that tasks of the role and its descendants hold,
	// by type; "*" is the sum. Shares count as fractions.
	Allocated map[string]float64 `json:"held"`
	// Deserved has the GPUs that the role gets while it demands them, by type; "*" counts all. It is
	// empty for a role without the setting.
	Deserved map[string]int `json:"deserved"`
	// Demanded has the GPUs that tasks hold or wait for; a task that accepts several types counts
	// for each. Entitled has the GPUs that the role would have if all GPUs were divided among all
	// demand: first the deserved ones, then the rest by weight. Both include the descendants.
	Demanded map[string]float64 `json:"demanded"`
	// Entitled is absent unless the scheduler reclaims what roles are entitled to, and on a standby, which does not know
	// the GPUs.
	Entitled map[string]float64 `json:"entitled,omitempty"`
	// Host has the CPUs ("cpus") and the MiB of memory ("mem") of the role and its descendants. It is absent unless a role
	// deserves some.
	Host map[string]HostUse `json:"host,omitempty"`
	// Waiting is the number of its tasks that wait for resources.
	Waiting int `json:"waiting"`
	// Hold is set if the role or a role above it is held: its tasks wait.
	Hold *job.Hold `json:"hold,omitempty"`
	// HalfLifeSeconds is after how many seconds GPU time of the past counts half in the fair
	// share, 0 if only what tasks hold counts. Recent is the mean number of GPUs that the role's
	// own tasks have held, weighted so.
	HalfLifeSeconds float64 `json:"half_life_seconds,omitempty"`
	Recent          float64 `json:"recent,omitempty"`
	// Users are the users of the role who have used GPUs of late: who is served first at
	// first. It is empty unless the scheduler has a half-life for the fair share.
	Users []UserUsage `json:"users,omitempty"`
	// WaitingJobs are the jobs of the role and its descendants that have not ended and hold
	// nothing. WaitingJobsLimit is how many may be submitted, 0 for any number.
	WaitingJobs      int `json:"waiting_jobs"`
	WaitingJobsLimit int `json:"waiting_jobs_limit,omitempty"`
	// UserLimits limits the users of the role and of its descendants; nil without limits.
	UserLimits *RoleUserLimits `json:"user_limits,omitempty"`
	// Budgets are the amounts of the role's budget, with what the role and its descendants have used of
	// them in this month (UTC) until now. It is empty without a budget.
	Budgets []BudgetUse `json:"budgets,omitempty"`
	// Warnings lists GPU types of a newly set quota that no agent has. The quota has no
	// effect on them yet.
	Warnings []string `json:"warnings,omitempty"`
}

// HostUse contains the CPUs or the MiB of memory that a role deserves and that the tasks of the role and its descendants
// hold or wait for, with and without GPUs.
type HostUse struct {
	// Deserved is absent for a role that deserves none of them.
	Deserved *float64 `json:"deserved,omitempty"`
	Demanded float64  `json:"demanded"`
	Held     float64  `json:"held"`
}

// MesosQuota is Mesos's quota of whole GPUs for a role and its descendants.
type MesosQuota struct {
	// Limit is the number of GPUs that Mesos offers to frameworks at most, Guarantee the number
	// that it reserves for the role. Used is the number that all frameworks use.
	Limit     int `json:"limit"`
	Guarantee int `json:"guarantee"`
	Used      int `json:"used"`
}

// UserUsage contains the decayed and the present usage of a user of a role.
type UserUsage struct {
	// User is "" for jobs without an owner.
	User string `json:"user"`
	// Recent is the mean number of GPUs, in which the past counts half after each half-life.
	// Allocated is the number of GPUs that tasks hold now.
	Recent    float64 `json:"recent"`
	Allocated float64 `json:"held"`
}

// BudgetUse is one amount of a role's budget for a month, and what is used of it.
type BudgetUse struct {
	// User is the user whom it limits, "" for all together. Type is the GPU type, "*" for all.
	User string `json:"user,omitempty"`
	Type string `json:"type"`
	// Used and Budget are GPU hours or, if Priced is set, their cost.
	Used   float64 `json:"used"`
	Budget float64 `json:"budget"`
	Priced bool    `json:"priced,omitempty"`
	// AtLimit is what happens when it is used up: "warn", "hold" or "lower".
	AtLimit string `json:"at_limit"`
	// HeldTasks is the number of waiting tasks that get no GPUs of it, because it is used up and AtLimit is "hold".
	HeldTasks int `json:"held_tasks,omitempty"`
}

// RoleUserLimits are the limits of a role's users. Each applies to users without limits of
// their own.
type RoleUserLimits struct {
	Each UserLimits `json:"each"`
	// Users lists the users with jobs, or with limits of their own, sorted by name.
	Users []LimitedUser `json:"users"`
}

// UserLimits limits a user's usage of a role and its descendants. Absent fields limit nothing.
type UserLimits struct {
	// GPUs limits what the user's tasks hold, by type, and "*" all GPUs. RunningJobs limits the
	// jobs with tasks that hold places, WaitingJobs the others that have not ended.
	GPUs                 map[string]int `json:"gpus,omitempty"`
	RunningJobs          int            `json:"running_jobs,omitempty"`
	WaitingJobs          int            `json:"waiting_jobs,omitempty"`
	SubmissionsPerMinute int            `json:"submissions_per_minute,omitempty"`
}

// LimitedUser is a user with the limits that apply, and what the user has of them.
type LimitedUser struct {
	User   string     `json:"user"`
	Limits UserLimits `json:"limits"`
	// Allocated is the number of GPUs that tasks hold, by type; "*" is the sum.
	Allocated   map[string]float64 `json:"held"`
	RunningJobs int                `json:"running_jobs"`
	WaitingJobs int                `json:"waiting_jobs"`
}

// RoleList is the response to GET /v1/roles.
type RoleList struct {
	Roles []RoleStatus `json:"roles"`
	Next  string       `json:"next,omitempty"`
}

// QuotaChange sets a role's quota in the syntax of the roles file: "V100=8, *=16". ""
// means unlimited, null restores the quota of the roles file.
type QuotaChange struct {
	Quota *string `json:"quota"`
}

// CordonRequest has the reason why an agent is cordoned.
type CordonRequest struct {
	Reason string `json:"reason"`
}

// AnyType is UnmetDemand.Type if every type is accepted, except NotTypes.
const AnyType = "any"

// UnmetDemand is a group of waiting tasks with equal requirements that would run if
// machines were added.
type UnmetDemand struct {
	// Type is the only accepted GPU type, AnyType, or "" if several are accepted.
	// Types are the accepted ones, empty for any.
	Type     string   `json:"type"`
	Types    []string `json:"types"`
	NotTypes []string `json:"not_types,omitempty"`
	// SameType reports that all GPUs of each job's tasks must be of one type.
	SameType bool `json:"same_type,omitempty"`
	// GPUs is the total number of missing GPUs, 0 if only other resources are missing.
	// Each task needs PerAgent GPUs on one agent. For shares, GPUs is the number of
	// devices that the shares add up to.
	GPUs     int `json:"gpus"`
	PerAgent int `json:"per_agent"`
	// InsufficientResources lists the missing resources: "gpus" or, if enough GPUs are
	// free, "cpus", "mem", "disk" and "ports".
	InsufficientResources []string `json:"short"`
	// Share is set if a task needs this share of each of PerAgent devices.
	Share *gpu.ShareRequest `json:"share,omitempty"`
	// MemMiB is the least memory of a device. Topology is the required link between the
	// devices of one task: "nvlink", "same-numa" or "".
	MemMiB   int64  `json:"mem_mib"`
	Topology string `json:"topology"`
	// MinDriver and MinCUDA are the oldest accepted versions.
	MinDriver string `json:"min_driver,omitempty"`
	MinCUDA   string `json:"min_cuda,omitempty"`
	// Constraints are the constraints that the agent must also satisfy.
	Constraints []job.Constraint `json:"constraints,omitempty"`
	// Tasks is the number of waiting tasks; Jobs and Roles are theirs.
	Tasks int      `json:"tasks"`
	Jobs  []string `json:"jobs"`
	Roles []string `json:"roles"`
	// CPUs and TaskMemMiB are the amounts that each task needs in addition to GPUs, including its
	// executor.
	CPUs       float64 `json:"cpus"`
	TaskMemMiB float64 `json:"task_mem_mib"`
}

// DemandList is the response to GET /v1/demand.
type DemandList struct {
	Demand []UnmetDemand `json:"demand"`
	// NotYetCounted lists jobs that have waited for less time than offers may take to
	// arrive.
	NotYetCounted []string `json:"settling"`
}

// RerunRequest runs a job again.
type RerunRequest struct {
	// Failed runs only the tasks that did not finish. The others are FINISHED in the new run.
	Failed bool `json:"failed,omitempty"`
}

// ScaleRequest sets the number of tasks of a service.
type ScaleRequest struct {
	Tasks *int `json:"tasks"`
}

// StopRequest ends a task.
type StopRequest struct {
	// Retire reduces the service by one task. Otherwise another task replaces the
	// stopped one. Tasks of other jobs are never replaced.
	Retire bool `json:"retire,omitempty"`
}
