// Package job holds what people submit and what becomes of it: a job's
// specification, its tasks, and the life of a task as one table. It decides
// which states may follow which; it never decides where a task runs.
package job

import (
	"maps"
	"slices"
	"time"

	"mesos-gpu/gpu"
)

// Containerizer says what runs a task: the Docker engine or Mesos itself.
type Containerizer string

const (
	Docker Containerizer = "docker"
	Mesos  Containerizer = "mesos"
)

// Spec is what a person submits. Defaults and Validate complete and check it.
type Spec struct {
	// Name is the job's identity in the cluster: letters, digits, dot, dash
	// and underscore, at most 63 of them.
	Name string `json:"name"`
	// Tasks counts equal tasks, each with the resources below.
	Tasks int `json:"tasks"`
	// Matrix, where set, has a task for each of its combinations.
	Matrix *Matrix `json:"matrix,omitempty"`
	// MaxParallel bounds how many of the tasks hold places at a time; 0 is no
	// bound.
	MaxParallel int         `json:"max_parallel,omitempty"`
	Request     gpu.Request `json:"request"`
	CPUs        float64     `json:"cpus"`
	MemMiB      float64     `json:"mem_mib"`
	DiskMiB     float64     `json:"disk_mib,omitempty"`
	// Command is an argument vector; no shell reads it. It may be empty
	// where Image brings its own.
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// Secrets are variables whose values the agent has: NAME, and by which name
	// its operator keeps it for the job's role. Whoever reads the Spec learns no
	// secret.
	Secrets map[string]string `json:"secrets,omitempty"`
	// Image is empty for a task that runs in the agent's own file system.
	Image         string        `json:"image,omitempty"`
	Containerizer Containerizer `json:"containerizer"`
	Container
	// KillGrace is how long a task may take to end after SIGTERM.
	KillGrace time.Duration `json:"kill_grace"`

	// Role is the Mesos role whose offers and quota the job uses; empty is
	// the scheduler's first.
	Role string `json:"role,omitempty"`
	// Owner is who submitted it, as the scheduler's access file knows them. It
	// is the scheduler's to say.
	Owner string `json:"owner,omitempty"`
	// ClientKey, where set, is by what its submission is known when it is made
	// again. It is the scheduler's to say.
	ClientKey *ClientKey `json:"client_key,omitempty"`
	// Priority orders the jobs of one role, the highest first.
	Priority int `json:"priority,omitempty"`
	// Preemptible tasks may be stopped, with KillGrace, and put back into the
	// queue when a job of higher priority of the same role needs their place.
	Preemptible bool `json:"preemptible,omitempty"`
	// Gang tasks start together or not at all, and are told their peers.
	Gang bool `json:"gang,omitempty"`
	// Constraints say which agents will do, as Marathon's do.
	Constraints []Constraint `json:"constraints,omitempty"`
	// After are jobs that must have ended before this one's tasks start.
	After []Dependency `json:"after,omitempty"`
	// Schedule, where set, makes the Spec that of the jobs that a schedule of
	// its Name submits again and again.
	Schedule *Schedule `json:"schedule,omitempty"`
	// Service, where set, keeps the tasks running until somebody ends the job.
	Service *Service `json:"service,omitempty"`
	// Group makes constraints that depend on other tasks count those of all
	// jobs of the role with the same group, such as the versions of one
	// service. Empty is a group of the job alone.
	Group string `json:"group,omitempty"`
	// Retries is how often a task that failed is tried again.
	Retries int `json:"retries,omitempty"`
	// Timeout bounds how long a task may run, RunTime says how long it is
	// expected to, MaxWait how long it may wait for its first start. Zero is
	// no bound, or not known.
	Timeout time.Duration `json:"timeout,omitempty"`
	RunTime time.Duration `json:"run_time,omitempty"`
	MaxWait time.Duration `json:"max_wait,omitempty"`
}

// ClientKey is a client's own key for a submission, and a digest of what was
// submitted by it. It counts among the jobs of one owner.
type ClientKey struct {
	Key    string `json:"key"`
	Digest string `json:"digest"`
}

// ExpectedRunTime is how long a task will hold its place at most: its expected run time,
// else its timeout; 0 where nobody said.
func (s *Spec) ExpectedRunTime() time.Duration {
	if s.RunTime > 0 {
		return s.RunTime
	}
	return s.Timeout
}

// Job is a submitted Spec and its tasks, in index order.
type Job struct {
	Spec      Spec      `json:"spec"`
	Submitted time.Time `json:"submitted"`
	Tasks     []Task    `json:"tasks"`
}

// Task is one attempt to run one of a job's tasks.
type Task struct {
	// ID names the task in Mesos: JOB.INDEX.ATTEMPT, with a part that keeps
	// it unique when a name is used again.
	ID    string `json:"id"`
	Job   string `json:"job"`
	Index int    `json:"index"`
	State State  `json:"state"`
	// Attempt counts from 1; it grows each time the task was lost and goes
	// back to the queue under a new ID.
	Attempt int `json:"attempt,omitempty"`
	// AgentID, Hostname and AgentURL say where it was placed.
	AgentID  string `json:"agent_id,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	AgentURL string `json:"agent_url,omitempty"`
	// DeviceIDs are the UUIDs it holds, where the agent names devices, and
	// GPUTypes how many it holds of each type; "" is a type nobody told.
	DeviceIDs []string       `json:"device_ids,omitempty"`
	GPUTypes  map[string]int `json:"gpu_types,omitempty"`
	// Shares are what it holds of shared devices, which DeviceIDs names too and
	// GPUTypes leaves out.
	Shares []gpu.DeviceShare `json:"parts,omitempty"`
	// Message and Reason come from the last status update.
	Message string `json:"message,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// ExitCode is set once the task's process has ended by itself.
	ExitCode *int      `json:"exit_code,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	// Changed is when State last changed.
	Changed time.Time `json:"changed"`
	// KillRequested is when its end was asked for, KillReason why, and KillForced
	// that it gets no kill grace.
	KillRequested time.Time  `json:"kill_wanted,omitzero"`
	KillReason    KillReason `json:"kill_reason,omitempty"`
	KillForced    bool       `json:"kill_forced,omitempty"`
	// Healthy is what its health check found last, nil before it knows.
	Healthy *bool `json:"healthy,omitempty"`
	// Check is what its check found last, in words.
	Check string `json:"check,omitempty"`
	// Ports are the host ports it got, Addresses the IP addresses by which it
	// is reached: its agent's, or its own in a container network.
	Ports     []int    `json:"ports,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	// Failures and Losses count how earlier attempts ended: by a fault of
	// their own, or without a word.
	Failures int `json:"failures,omitempty"`
	Losses   int `json:"losses,omitempty"`
	// Ran says that an attempt got as far as its agent.
	Ran bool `json:"ran,omitempty"`
	// ImageExclusions keeps it off agents that its image cannot run on, as its attempts
	// have found.
	ImageExclusions []Constraint `json:"unfit,omitempty"`
	// NotBefore is when a task that waits may be tried again, or since when its
	// job waits for no other: until then nothing but time was in its way.
	NotBefore time.Time `json:"not_before,omitzero"`
}

// WaitingSince is when a task that waits began to wait for a place: pauses after
// failures, and the wait for other jobs, are over by then.
func (t *Task) WaitingSince() time.Time {
	if t.NotBefore.After(t.Changed) {
		return t.NotBefore
	}
	return t.Changed
}

// KillReason says why a task's end was asked for.
type KillReason string

const (
	KillByUser KillReason = ""
	// KillByTimeout: it ran longer than its job allows.
	KillByTimeout KillReason = "timeout"
	// KillByPeer: another task of its gang has ended for good.
	KillByPeer KillReason = "peer"
	// KillByPreemption: a job of higher priority needs its place.
	KillByPreemption KillReason = "preempted"
	// KillByGangRestart: another task of its gang has ended, and all start anew.
	KillByGangRestart KillReason = "gang"
	// KillByScaling: its service wants fewer tasks.
	KillByScaling KillReason = "scale"
	// KillByReplacement: its service wants another in its place.
	KillByReplacement KillReason = "replaced"
	// KillByDrain: an operator wants its agent empty.
	KillByDrain KillReason = "drained"
)

// RequeuesTask reports whether a task killed for that reason goes back into the
// queue.
func (r KillReason) RequeuesTask() bool {
	return r == KillByPreemption || r == KillByGangRestart || r == KillByReplacement || r == KillByDrain
}

// State is the job's: FAILED as soon as it cannot finish any more, otherwise
// the least advanced of its tasks. Retired ones count only where all are.
func (j *Job) State() State {
	least, retired := Finished, true
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.IsRetired() {
			continue
		}
		retired = false
		if t.State.jobRank() < least.jobRank() {
			least = t.State
		}
	}
	if retired && len(j.Tasks) > 0 {
		return Killed
	}
	return least
}

// jobRank orders states by what they say of a whole job: what went wrong says
// most, and of that what went wrong by itself; then the least advanced.
func (s State) jobRank() int {
	for i, bad := range [...]State{Failed, Refused, Lost, Killed} {
		if s == bad {
			return i - len(transitions)
		}
	}
	for i, one := range stateOrder() {
		if s == one {
			return i
		}
	}
	return -1
}

// IsTerminal reports whether every task has ended for good. Retired tasks may
// be wanted again as long as nobody ends their service.
func (j *Job) IsTerminal() bool {
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.State.IsLive() || t.IsRetired() {
			return false
		}
	}
	return true
}

// ExitCode is the first non-zero exit code in index order; 1 for a job that
// ended otherwise than FINISHED and brought none.
func (j *Job) ExitCode() int {
	for i := range j.Tasks {
		if c := j.Tasks[i].ExitCode; c != nil && *c != 0 && !j.Tasks[i].IsRetired() {
			return *c
		}
	}
	if j.State() == Finished {
		return 0
	}
	return 1
}

// Clone copies the job so that neither copy sees the other's changes.
func (j *Job) Clone() *Job {
	c := *j
	c.Tasks = append([]Task(nil), j.Tasks...)
	for i := range c.Tasks {
		t := &c.Tasks[i]
		t.DeviceIDs, t.Ports, t.GPUTypes = slices.Clone(t.DeviceIDs), slices.Clone(t.Ports), maps.Clone(t.GPUTypes)
		t.Shares, t.ImageExclusions, t.Addresses = slices.Clone(t.Shares), slices.Clone(t.ImageExclusions), slices.Clone(t.Addresses)
	}
	return &c
}
