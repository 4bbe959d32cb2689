// Package api defines the documents of the scheduler's REST API: what requests and
// responses contain, and the errors. Clients and the scheduler share it; it performs no
// requests and serves none. Programs usually use package client.
package api

import (
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// JobView is the API representation of a job.
type JobView struct {
	job.Job
	State job.State `json:"state"`
	// TaskStates counts the tasks in each state, without those by which a service was
	// scaled down. A scheduler of an earlier version omits it.
	TaskStates map[job.State]int `json:"task_states,omitempty"`
	// ExitCode is set once the job has ended.
	ExitCode *int `json:"exit_code,omitempty"`
	// WaitReason says why tasks wait, with numbers; it is empty if none waits. The
	// response to a submission omits it if the queue is long.
	WaitReason string `json:"waits,omitempty"`
	// Start is an estimate of when a waiting job starts. Only the answer about a single job has it; nil if none exists.
	Start *StartEstimate `json:"start,omitempty"`
	// Warnings are reasons why the job cannot start on the present agents, whatever else runs. Lists omit them.
	Warnings []string `json:"warnings,omitempty"`
	Terminal bool     `json:"terminal"`
	// DiffersFrom is the run of the same name and owner before this one, if it has another specification. Only the answer to a
	// submission has it.
	DiffersFrom int `json:"differs_from,omitempty"`
	// Attempts are earlier attempts of its tasks that reached an agent, oldest first:
	// the last 100 since this scheduler started. Lists omit them.
	Attempts []job.Task `json:"attempts,omitempty"`
	// Autoscaling is the last measurement of a service that is scaled by load. Lists, standbys
	// and answers to submissions omit it.
	Autoscaling *AutoscalingStatus `json:"autoscaling,omitempty"`
	// AlreadySubmitted means that the job existed, with the client key of this submission.
	AlreadySubmitted bool `json:"-"`
	// WantedCount is the number of tasks that the job is to have. HasWaiting means that some
	// of its tasks are in WAITING. Both include omitted tasks.
	WantedCount int  `json:"-"`
	HasWaiting  bool `json:"-"`
	// OmittedTasks is the number of tasks that follow those in Tasks. The scheduler reads
	// them while it writes its answer; a client always receives all tasks.
	OmittedTasks int `json:"-"`
}

// NewJobView returns the view of a job with the wait reason waits.
func NewJobView(j *job.Job, waits string) JobView {
	v := JobView{Job: *j, State: j.State(), TaskStates: j.CountTasks(), Terminal: j.IsTerminal(), WaitReason: waits, WantedCount: j.WantedTasks()}
	v.HasWaiting = v.TaskStates[job.Waiting] > 0
	if v.Terminal {
		code := j.ExitCode()
		v.ExitCode = &code
	}
	return v
}

// AutoscalingStatus is the result of the last measurement of a service's load.
type AutoscalingStatus struct {
	Time time.Time `json:"time"`
	// Metric names the measured load, Target its wanted value for each task.
	Metric string  `json:"metric"`
	Target float64 `json:"target"`
	// Load is the average of the Measured tasks, nil if there are none.
	Load     *float64 `json:"load,omitempty"`
	Measured int      `json:"measured"`
	// Recommended is the number of tasks that the load requires, within min and max.
	Recommended int `json:"recommended"`
	// Reason has the load, the target, and why the service does not have the recommended
	// number of tasks.
	Reason string `json:"reason"`
}

// JobList is the response to GET /v1/jobs, oldest first unless requested otherwise.
type JobList struct {
	Jobs []JobView `json:"jobs"`
	// Next is the cursor of the next page, or "" on the last page. It is passed as the
	// query parameter after; likewise in other lists.
	Next string `json:"next,omitempty"`
}

// AgentSummary is an agent of the cluster, including those of other frameworks.
type AgentSummary struct {
	ID       string   `json:"id"`
	Hostname string   `json:"hostname"`
	URL      string   `json:"url"`
	Types    []string `json:"types"`
	GPUs     int      `json:"gpus"`
	GPUsFree int      `json:"gpus_free"`
	CPUs     float64  `json:"cpus"`
	MemMiB   float64  `json:"mem_mib"`
	// Shared summarizes the shared GPUs, which GPUs does not count; nil if there are
	// none.
	Shared *SharedGPUs `json:"shared,omitempty"`
	Driver string      `json:"driver,omitempty"`
	CUDA   string      `json:"cuda,omitempty"`
	// Simulated means that the agent's GPUs are not real.
	Simulated bool `json:"simulated,omitempty"`
	// Cordoned is the reason why the agent gets no tasks of this scheduler, or "".
	Cordoned string `json:"cordoned,omitempty"`
	// Draining means that this scheduler or Mesos drains the agent.
	Draining bool `json:"draining,omitempty"`
	// Strays are attempts on the agent that no job owns any more.
	Strays []StrayTask `json:"strays,omitempty"`
}

// StrayTask is an attempt that its job has given up or replaced and whose end is not proven. It holds its GPUs until its
// agent proves the end.
type StrayTask struct {
	// Task is the id of the attempt, or HiddenTaskID. Role is the role of its job, "" if that is unknown.
	Task string `json:"task"`
	Role string `json:"role,omitempty"`
	// Since is when it was given up, or found on its agent.
	Since time.Time `json:"since"`
	// Runs means that its agent has reported it since: the scheduler ends it.
	Runs bool     `json:"runs,omitempty"`
	GPUs []string `json:"gpus,omitempty"`
}

// SharedGPUs summarizes an agent's shared GPUs and their memory.
type SharedGPUs struct {
	GPUs       int   `json:"gpus"`
	MemMiB     int64 `json:"mem_mib"`
	MemFreeMiB int64 `json:"mem_free_mib"`
}

// AgentDetail is the response to GET /v1/agents/{id}.
type AgentDetail struct {
	AgentSummary
	// Devices are the devices of the agent's inventory; empty without an inventory.
	Devices []gpu.Device `json:"devices"`
	// ETag is the ETag of the agent's cordon.
	ETag string `json:"-"`
}

// AgentList is the response to GET /v1/agents.
type AgentList struct {
	Agents []AgentSummary `json:"agents"`
	Next   string         `json:"next,omitempty"`
}

// GPUView is one device. UUID is empty on an agent that offers GPUs by count.
type GPUView struct {
	UUID   string `json:"uuid"`
	Model  string `json:"model"`
	Type   string `json:"type"`
	MemMiB int64  `json:"mem_mib"`
	// PCI is the bus address, by which nvidia-smi names the GPU on its agent; empty if the
	// agent does not report it.
	PCI      string `json:"pci,omitempty"`
	Agent    string `json:"agent"`
	Hostname string `json:"hostname"`
	// Task is the id of this scheduler's task that holds the GPU, or "". The ids of
	// tasks that share it are separated by commas. HiddenTaskID replaces the id of a task
	// that the requester may not see.
	Task string `json:"task,omitempty"`
	// Shared is set if tasks share the GPU.
	Shared *SharedCapacity `json:"shared,omitempty"`
	// State is the state that the master reports, for all frameworks; empty on an agent
	// that offers GPUs by count.
	State GPUState `json:"state,omitempty"`
	// Reason explains State: why no job of this scheduler gets the GPU, or which
	// framework holds it. Note is the reason as text, including an operator's.
	Reason GPUReason `json:"reason,omitempty"`
	Note   string    `json:"note,omitempty"`
}

// GPUState states whether a GPU is available to tasks.
type GPUState string

const (
	// FreeGPU means that no task holds the GPU, or not all of it.
	FreeGPU GPUState = "free"
	// HeldGPU means that a task holds the GPU, possibly of another framework.
	HeldGPU GPUState = "held"
	// WithheldGPU means that the agent does not offer the GPU, because it is unhealthy
	// or cordoned. A task may still hold it.
	WithheldGPU GPUState = "withheld"
)

// GPUReason explains the state of a GPU.
type GPUReason string

const (
	// ReasonCordoned means that the agent is cordoned or, for a withheld GPU, the GPU.
	ReasonCordoned GPUReason = "cordoned"
	// ReasonDraining means that the agent gets no tasks and its tasks are stopped.
	ReasonDraining GPUReason = "draining"
	// ReasonUnhealthy means that the agent's daemon withholds the GPU after a fault.
	ReasonUnhealthy GPUReason = "sick"
	// ReasonHeldByContainer means that the agent's daemon withholds the GPU because a container that is no task of the agent
	// holds it, for example one that the agent lost.
	ReasonHeldByContainer GPUReason = "held"
	// ReasonForeignTask means that a task of another framework holds the GPU.
	ReasonForeignTask GPUReason = "foreign"
	// ReasonNotOffered means that the GPU is unhealthy or cordoned, and it is unknown
	// which: the agent's daemon is an earlier version or does not run, or Mesos does not
	// permit the scheduler to see the role gpu-withheld.
	ReasonNotOffered GPUReason = "not-offered"
)

// SharedCapacity is the total and the free capacity of a shared device. Tasks of any
// framework may hold the rest.
type SharedCapacity struct {
	MemMiB     int64 `json:"mem_mib"`
	MemFreeMiB int64 `json:"mem_free_mib"`
	// Cores is in percent of the device's compute capacity.
	Cores     int `json:"cores"`
	CoresFree int `json:"cores_free"`
	// LimitedBy is the method that enforces the shares, "" if the agent does not report
	// it.
	LimitedBy gpu.EnforcementMethod `json:"limit,omitempty"`
}

// GPUList is the response to GET /v1/gpus.
type GPUList struct {
	GPUs []GPUView `json:"gpus"`
	Next string    `json:"next,omitempty"`
}

// TaskEvent is a state change of a task, or its state when the stream started.
type TaskEvent struct {
	Time time.Time `json:"time"`
	Job  string    `json:"job"`
	Run  int       `json:"run,omitempty"`
	Task string    `json:"task"`
	// State is the state of the task after the event, or without a task that of the job. It is "" for scalings that a
	// scheduler of an earlier version recorded.
	State job.State `json:"state,omitempty"`
	// Change is what a user, or load, did to the job. Only events of a JobHistory without a task have it.
	Change  job.ChangeKind `json:"change,omitempty"`
	Message string         `json:"message,omitempty"`
	// By is the user who submitted or changed the job or killed the task, or the job for which the task
	// was preempted. Only a JobHistory has it.
	By string `json:"by,omitempty"`
	// ID is the position in the stream. It is "" for the initial states, except for the
	// last of them.
	ID string `json:"-"`
	// InventoryChanged means that agents or GPUs have changed. All other fields are
	// then zero.
	InventoryChanged bool `json:"-"`
}

// JobHistory is the response to GET /v1/jobs/{reference}/history: the events of a run and its attempts,
// oldest first. The first, without a task, is the submission; the others without a task have a Change. Attempts that the scheduler no
// longer keeps, and a task's earlier times of being UNREACHABLE, have no events.
type JobHistory struct {
	Events []TaskEvent `json:"events"`
	// Omitted counts older events that the limit of the request left out.
	Omitted int `json:"omitted,omitempty"`
}

// HealthStatus is the response to GET /healthz and /readyz.
type HealthStatus struct {
	// Connected means that the scheduler is subscribed to a master.
	Connected   bool   `json:"connected"`
	FrameworkID string `json:"framework_id,omitempty"`
	// Role is Leader or Standby. Leading is the address of the leader's API.
	Role      string `json:"role"`
	LeaderURL string `json:"leader,omitempty"`
}

// Values of HealthStatus.Role.
const (
	Leader  = "leader"
	Standby = "standby"
)

// HiddenTaskID replaces the id of a task that the requester may not see.
const HiddenTaskID = "hidden"
