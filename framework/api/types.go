// Package api is the scheduler's REST interface: it reads requests, bounds
// and checks them, and writes answers. What they lead to is decided by the
// Backend behind it.
package api

import (
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// JobView is a job as the API shows it.
type JobView struct {
	job.Job
	State job.State `json:"state"`
	// ExitCode is set once the job has ended.
	ExitCode *int `json:"exit_code,omitempty"`
	// WaitReason says why tasks wait, in numbers, while some do. The answer to a
	// submission leaves it out where the queue is long.
	WaitReason string `json:"waits,omitempty"`
	Terminal   bool   `json:"terminal"`
	// Attempts are the earlier ones of its tasks that reached an agent:
	// the last 100 that this scheduler remembers since it was started, oldest
	// first. Lists leave them out.
	Attempts []job.Task `json:"attempts,omitempty"`
	// AlreadySubmitted: the job was there already, by the client key of this submission.
	AlreadySubmitted bool `json:"-"`
}

// NewJobView shows a job.
func NewJobView(j *job.Job, waits string) JobView {
	v := JobView{Job: *j, State: j.State(), Terminal: j.IsTerminal(), WaitReason: waits}
	if v.Terminal {
		code := j.ExitCode()
		v.ExitCode = &code
	}
	return v
}

// JobList answers GET /v1/jobs, oldest first unless the query says otherwise.
type JobList struct {
	Jobs []JobView `json:"jobs"`
	// Next, given as the query's after, continues a list that was cut off; so
	// in the other lists.
	Next string `json:"next,omitempty"`
}

// JobQuery says which jobs to list.
type JobQuery struct {
	PageRequest
	// State is LiveJobs or EndedJobs; empty is both.
	State string
	// NewestFirst begins with the job submitted last.
	NewestFirst bool
	// Grant has the list leave out what its reader may not see; nil sees all.
	// It is never sent.
	Grant *access.Grant
}

// NewestFirst is the order that a query may ask for.
const NewestFirst = "newest"

// The states in a JobQuery.
const (
	LiveJobs  = "live"
	EndedJobs = "ended"
)

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
	// Shared sums up the GPUs that tasks share, which GPUs does not count; nil
	// where there are none.
	Shared *SharedGPUs `json:"shared,omitempty"`
	Driver string      `json:"driver,omitempty"`
	CUDA   string      `json:"cuda,omitempty"`
	// Simulated agents have GPUs that no driver serves.
	Simulated bool `json:"simulated,omitempty"`
	// Cordoned says why it gets no tasks of this scheduler, "" where it may.
	Cordoned string `json:"cordoned,omitempty"`
	// Draining agents are to be empty: by this scheduler's word, or Mesos's.
	Draining bool `json:"draining,omitempty"`
}

// SharedGPUs are those of an agent that tasks share, with their memory.
type SharedGPUs struct {
	GPUs       int   `json:"gpus"`
	MemMiB     int64 `json:"mem_mib"`
	MemFreeMiB int64 `json:"mem_free_mib"`
}

// AgentDetail answers GET /v1/agents/{id}.
type AgentDetail struct {
	AgentSummary
	// Devices are those of its inventory; empty where it has no inventory.
	Devices []gpu.Device `json:"devices"`
	// ETag is that of its cordon.
	ETag string `json:"-"`
}

// AgentList answers GET /v1/agents.
type AgentList struct {
	Agents []AgentSummary `json:"agents"`
	Next   string         `json:"next,omitempty"`
}

// GPUView is one device. UUID is empty on an agent that hands GPUs out by count.
type GPUView struct {
	UUID     string `json:"uuid"`
	Model    string `json:"model"`
	Type     string `json:"type"`
	MemMiB   int64  `json:"mem_mib"`
	Agent    string `json:"agent"`
	Hostname string `json:"hostname"`
	// Task holds it, if it is one of this scheduler's. Those that share it
	// stand with commas between; Hidden are those that the requester may not
	// see.
	Task string `json:"task,omitempty"`
	// Shared is set where tasks share it.
	Shared *SharedCapacity `json:"shared,omitempty"`
	// State is what the master reports of it, for all frameworks; empty on an agent
	// that hands GPUs out by count.
	State GPUState `json:"state,omitempty"`
	// Reason says what State does not: why no job of this scheduler gets it, or
	// who has it. Note has it in words, an operator's among them.
	Reason GPUReason `json:"reason,omitempty"`
	Note   string    `json:"note,omitempty"`
}

// GPUState says whether a task may get a GPU.
type GPUState string

const (
	// FreeGPU: no task holds it, or not all of it.
	FreeGPU GPUState = "free"
	// HeldGPU: a task holds it, perhaps another framework's.
	HeldGPU GPUState = "held"
	// WithheldGPU: its agent does not offer it: it is sick, or an operator has
	// cordoned it. A task may hold it still.
	WithheldGPU GPUState = "withheld"
)

// GPUReason explains the state of a GPU.
type GPUReason string

const (
	// ReasonCordoned: its agent gets no tasks or, of a withheld one, itself.
	ReasonCordoned GPUReason = "cordoned"
	// ReasonDraining: its agent gets no tasks, and those it has are stopped.
	ReasonDraining GPUReason = "draining"
	// ReasonUnhealthy: its agent's daemon has seen a fault; a withheld one.
	ReasonUnhealthy GPUReason = "sick"
	// ReasonForeignTask: a task of another framework holds it.
	ReasonForeignTask GPUReason = "foreign"
	// ReasonNotOffered: it is sick or cordoned, and it is unknown which: its agent's daemon
	// is of an earlier version, or gone, or Mesos does not let the scheduler see
	// the role gpu-withheld.
	ReasonNotOffered GPUReason = "not-offered"
)

// SharedCapacity is what there is of a device that tasks share, and what is free of
// it. Tasks of any framework may hold the rest.
type SharedCapacity struct {
	MemMiB     int64 `json:"mem_mib"`
	MemFreeMiB int64 `json:"mem_free_mib"`
	// Cores are in percent of the device's.
	Cores     int `json:"cores"`
	CoresFree int `json:"cores_free"`
	// LimitedBy is what holds tasks to their parts of it, "" where the agent does
	// not tell.
	LimitedBy gpu.EnforcementMethod `json:"limit,omitempty"`
}

// GPUList answers GET /v1/gpus.
type GPUList struct {
	GPUs []GPUView `json:"gpus"`
	Next string    `json:"next,omitempty"`
}

// TaskEvent is a task's change of state, or its state when the stream began.
type TaskEvent struct {
	Time    time.Time `json:"time"`
	Job     string    `json:"job"`
	Task    string    `json:"task"`
	State   job.State `json:"state"`
	Message string    `json:"message,omitempty"`
	// ID is the place in the stream, "" for a state that was there before it
	// began, but for the last of those.
	ID string `json:"-"`
	// InventoryChanged is set, and nothing else, where agents or GPUs have changed.
	InventoryChanged bool `json:"-"`
}

// EventQuery says which events are asked for.
type EventQuery struct {
	// Job is "" for all.
	Job string
	// LiveOnly leaves out the states of tasks that have ended; their ends come.
	LiveOnly bool
	// WithInventory adds an event whenever agents or GPUs have changed.
	WithInventory bool
	// After is the ID of the last event that the client has had. Where it is
	// not known, or too old, all states come first, as where it is "".
	After string
}

// HealthStatus answers GET /healthz and /readyz.
type HealthStatus struct {
	// Connected: there is a subscription to a master.
	Connected   bool   `json:"connected"`
	FrameworkID string `json:"framework_id,omitempty"`
	// Role is Leader or Standby, Leading the address of the leader's API.
	Role      string `json:"role"`
	LeaderURL string `json:"leader,omitempty"`
}

// The roles in Health.
const (
	Leader  = "leader"
	Standby = "standby"
)
