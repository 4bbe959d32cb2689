// Package job defines what users submit and what becomes of it: the specification of
// a job, its tasks, and the states of a task as one table of transitions. It fills in
// defaults and validates. It never decides where a task runs.
package job

import (
	"maps"
	"slices"
	"time"

	"mesos-gpu/gpu"
)

// Containerizer selects the runtime of a task: the Docker engine or Mesos itself.
type Containerizer string

const (
	Docker Containerizer = "docker"
	Mesos  Containerizer = "mesos"
)

// Spec is a job as a user submits it. Complete fills in defaults and validates it.
type Spec struct {
	// Name identifies the job in the cluster. It has at most 63 letters, digits,
	// dots, dashes and underscores.
	Name string `json:"name"`
	// Tasks is the number of tasks, each of which gets the resources below.
	Tasks int `json:"tasks"`
	// Matrix, if set, gives the job a task for each of its combinations.
	Matrix *Matrix `json:"matrix,omitempty"`
	// MaxParallel bounds how many of the tasks hold resources at the same time.
	// 0 means no bound.
	MaxParallel int         `json:"max_parallel,omitempty"`
	Request     gpu.Request `json:"request"`
	CPUs        float64     `json:"cpus"`
	MemMiB      float64     `json:"mem_mib"`
	DiskMiB     float64     `json:"disk_mib,omitempty"`
	// Command is an argument vector, without a shell. It may be empty if Image
	// has a command of its own.
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// Workdir is the working folder of the tasks: the digest of an archive that the
	// scheduler stores, which agents unpack into the sandbox. In a job file it is a
	// folder of the client, which is uploaded before the job is submitted.
	Workdir string `json:"workdir,omitempty"`
	// Chdir is a folder of the agents, on a file system that they share, in which the tasks
	// start; "" for the sandbox. Before the submission it may be ChdirSubmit.
	Chdir string `json:"chdir,omitempty"`
	// Artifacts are paths in the sandbox, of files and folders that are copied to the
	// scheduler's store after each task's end.
	Artifacts []string `json:"artifacts,omitempty"`
	// Secrets maps variables to the names of secrets. The agent's operator keeps
	// their values, by role. The Spec never contains a value.
	Secrets map[string]string `json:"secrets,omitempty"`
	// SecretFiles maps paths in the container to the names of secrets, which
	// are mounted there. A relative path is in the sandbox.
	SecretFiles map[string]string `json:"secret_files,omitempty"`
	// Image is empty for a task that runs in the agent's file system.
	Image         string        `json:"image,omitempty"`
	Containerizer Containerizer `json:"containerizer"`
	Container
	// KillGrace is the time that a task has to end after SIGTERM.
	KillGrace time.Duration `json:"kill_grace"`

	// Role is the Mesos role whose offers and quota the job uses. Empty stands
	// for the scheduler's first role.
	Role string `json:"role,omitempty"`
	// Owner is the user who submitted the job, by the scheduler's access file.
	// The scheduler sets it.
	Owner string `json:"owner,omitempty"`
	// ClientKey, if set, identifies a submission that a client repeats. The
	// scheduler sets it.
	ClientKey *ClientKey `json:"client_key,omitempty"`
	// Priority orders the jobs of one role. The highest comes first.
	Priority int `json:"priority,omitempty"`
	// Preemptible tasks may be stopped, with KillGrace, and queued again if a
	// job of the same role with a higher priority needs their resources.
	Preemptible bool `json:"preemptible,omitempty"`
	// Guaranteed tasks run only on GPUs that their role deserves, so that no other
	// role reclaims them. It has no effect if no role deserves GPUs.
	Guaranteed bool `json:"guaranteed,omitempty"`
	// Gang tasks start together or not at all, and get each other's addresses.
	Gang bool `json:"gang,omitempty"`
	// Stdin means that a client sends the standard input of the command. TTY means that
	// the command runs on the terminal of a client. The task ends with its client.
	Stdin bool `json:"stdin,omitempty"`
	TTY   bool `json:"tty,omitempty"`
	// Constraints restrict the agents of the tasks.
	Constraints []Constraint `json:"constraints,omitempty"`
	// After lists jobs that must end before the tasks of this one start.
	After []Dependency `json:"after,omitempty"`
	// Schedule, if set, makes this the Spec of a schedule, which submits a job
	// whenever it is due.
	Schedule *Schedule `json:"schedule,omitempty"`
	// Service, if set, keeps the tasks running until a user ends the job.
	Service *Service `json:"service,omitempty"`
	// Group joins jobs of a role for constraints that depend on other tasks:
	// they count the tasks of all jobs with the same Group, such as the versions
	// of one service. Empty means this job alone.
	Group string `json:"group,omitempty"`
	// Retries is how often a failed task is tried again.
	Retries int `json:"retries,omitempty"`
	// Timeout bounds how long a task may run. RunTime is how long it is expected
	// to run. MaxWait bounds how long it may wait for its first start. 0 stands
	// for no bound, or unknown.
	Timeout time.Duration `json:"timeout,omitempty"`
	RunTime time.Duration `json:"run_time,omitempty"`
	MaxWait time.Duration `json:"max_wait,omitempty"`
	// IdleTimeout ends a running task to whose job no client has been connected for so
	// long. 0 means never.
	IdleTimeout time.Duration `json:"idle_timeout,omitempty"`
	// OnTimeout is the action at the Timeout, "" for FailOnTimeout.
	OnTimeout TimeoutAction `json:"on_timeout,omitempty"`
	// Warn, if set, warns tasks before they are preempted, drained, queued again, or stopped at
	// their Timeout.
	Warn *Warning `json:"warn,omitempty"`
	// MinRunTime is how long a task runs before it may be stopped for another job.
	MinRunTime time.Duration `json:"min_run_time,omitempty"`
	// PreemptAfter is how long after its submission others are stopped for the job at the earliest. Their warning runs within it.
	PreemptAfter time.Duration `json:"preempt_after,omitempty"`
	// CheckpointDir is a folder that all attempts see, below which each task has its own.
	CheckpointDir string `json:"checkpoint_dir,omitempty"`
	// Notify sends notifications about the job. The rules of its role apply besides.
	Notify []NotificationRule `json:"notify,omitempty"`
}

// ClientKey is a key that a client chose for a submission, and a digest of what it
// submitted. Keys are unique among the jobs of one owner.
type ClientKey struct {
	// Key is compared within one owner. A different Digest means that the key was used for another submission.
	Key    string `json:"key"`
	Digest string `json:"digest"`
}

// ExpectedRunTime returns how long a task is expected to hold its resources: RunTime, or else Timeout, or else 0.
func (s *Spec) ExpectedRunTime() time.Duration {
	if s.RunTime > 0 {
		return s.RunTime
	}
	return s.Timeout
}

// Job is a submitted Spec and its tasks, by index.
type Job struct {
	// Spec is complete and valid. It is replaced, never modified: the scheduler's state and all copies of the job share it.
	// The scheduler changes the Tasks of a service and the Met of dependencies.
	Spec *Spec `json:"spec"`
	// Run counts the submissions of the name, from 1; 0 stands for 1. An ended run is kept when the next one is
	// submitted.
	Run int `json:"run,omitempty"`
	// Number identifies the run among those of all jobs. The scheduler counts all submissions, from 1, and uses no number
	// again. It is 0 only in records of releases without numbers, until the scheduler has recorded one.
	Number int `json:"number,omitempty"`
	// Version counts the updates of a service. Tasks that were launched before an update have an earlier Version, whose
	// specification is in OldSpecs as long as one of them has not ended.
	Version  int           `json:"version,omitempty"`
	OldSpecs map[int]*Spec `json:"-"`
	// Submitted orders the queue.
	Submitted time.Time `json:"submitted"`
	// Tasks has the current attempt of each task. A retry replaces it.
	Tasks []Task `json:"tasks"`
	// Changes are the last changes of the job by users or load, oldest first; AddChange bounds them. The slice is replaced,
	// never modified.
	Changes []Change `json:"changes,omitempty"`
	// Hold, if set, keeps waiting tasks from being placed. It is replaced, never modified.
	Hold *Hold `json:"hold,omitempty"`
	// Revision counts the holds, releases and edits of the run. It is part of the job's ETag.
	Revision int `json:"revision,omitempty"`
	// Notified are the events of which targets are notified once in a run, and were. The slice is replaced, never
	// modified.
	Notified []NotificationEvent `json:"notified,omitempty"`
}

// Task is the current attempt to run one of a job's tasks.
type Task struct {
	// ID names the attempt in Mesos: JOB.INDEX.ATTEMPT, and a part that keeps it
	// unique if the job's name is used again.
	ID    string `json:"id"`
	Job   string `json:"job"`
	Run   int    `json:"run,omitempty"` // that of its job
	Index int    `json:"index"`
	State State  `json:"state"`
	// Version is the version of its job when the attempt was queued or, if the service was updated while it waited, after the update.
	Version int `json:"version,omitempty"`
	// Attempt counts from 1. It grows each time the task is queued again, with a
	// new ID.
	Attempt int `json:"attempt,omitempty"`
	// FinishedAs is set if the task was not run in this run of its job, because it had
	// finished in an earlier one: the ID of that attempt, whose output is the task's.
	FinishedAs string `json:"finished_as,omitempty"`
	// AgentID, Hostname and AgentURL identify the agent. They are empty before
	// the task is placed.
	AgentID  string `json:"agent_id,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	AgentURL string `json:"agent_url,omitempty"`
	// DeviceIDs are the UUIDs of its devices, if the agent advertises UUIDs.
	// GPUTypes counts its devices that are not shared by short type, Products by gpu.Product. "" is an unknown one.
	DeviceIDs []string       `json:"device_ids,omitempty"`
	GPUTypes  map[string]int `json:"gpu_types,omitempty"`
	Products  map[string]int `json:"gpu_products,omitempty"`
	// Shares are its shares of shared devices. A task for whole GPUs has all of
	// each. DeviceIDs contains their UUIDs; GPUTypes does not count them.
	Shares []gpu.DeviceShare `json:"shares,omitempty"`
	// Message and Reason come from the last status update.
	Message string `json:"message,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// ExitCode is set once the task's process has exited.
	ExitCode *int `json:"exit_code,omitempty"`
	// Queued is when the attempt was queued; zero for the first attempts of a job, which are queued when it is submitted.
	Queued time.Time `json:"queued,omitzero"`
	// Launched is when the scheduler placed it.
	Launched time.Time `json:"launched,omitzero"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	// Changed is when State changed last.
	Changed time.Time `json:"changed"`
	// KillRequested is when its kill was requested, KillReason is why, and KillForced skips the kill grace.
	KillRequested time.Time  `json:"kill_wanted,omitzero"`
	KillReason    KillReason `json:"kill_reason,omitempty"`
	KillForced    bool       `json:"kill_forced,omitempty"`
	// Ran is true once an attempt has reached its agent.
	Ran bool `json:"ran,omitempty"`
	// KilledBy is the user who requested the kill, "" without an access file, or the job
	// for which the task was preempted.
	KilledBy string `json:"killed_by,omitempty"`
	// Healthy is the latest result of its health checks, nil before the first.
	Healthy *bool `json:"healthy,omitempty"`
	// HealthFailure is the last failed attempt of a health check, nil after a
	// success.
	HealthFailure *HealthFailure `json:"health_failure,omitempty"`
	// Check is the latest result of its check, as text.
	Check string `json:"check,omitempty"`
	// Ports are its host ports. Addresses are the IP addresses at which it is
	// reached: its agent's, or its own in a container network.
	Ports     []int    `json:"ports,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	// Failures counts earlier attempts that failed. Losses counts those that
	// ended without a report, for example because the agent was lost.
	Failures int `json:"failures,omitempty"`
	Losses   int `json:"losses,omitempty"`
	// ImageExclusions keep it off agents that cannot run its image, as earlier
	// attempts found.
	ImageExclusions []Constraint `json:"unfit,omitempty"`
	// NotBefore is when a waiting task may be tried again, or when the job's last
	// dependency was met. Before that, the task does not wait for resources.
	NotBefore time.Time `json:"not_before,omitzero"`
}

// WaitingSince returns when a waiting task began to wait for resources: after its
// backoff and its dependencies.
func (t *Task) WaitingSince() time.Time {
	if t.NotBefore.After(t.Changed) {
		return t.NotBefore
	}
	return t.Changed
}

// KillReason is why the kill of a task was requested.
type KillReason string

const (
	KillByUser KillReason = ""
	// KillByTimeout means that it ran longer than its job allows.
	KillByTimeout KillReason = "timeout"
	// KillByIdle means that no client was connected to it for the job's idle timeout.
	KillByIdle KillReason = "idle"
	// KillByPeer means that another task of its gang has ended for good.
	KillByPeer KillReason = "peer"
	// KillByPreemption means that a job with a higher priority needs its resources.
	KillByPreemption KillReason = "preempted"
	// KillByGangRestart means that another task of its gang has ended, and all
	// start again.
	KillByGangRestart KillReason = "gang"
	// KillByScaling means that its service was scaled down.
	KillByScaling KillReason = "scale"
	// KillByEarlierScaling is KillByScaling after the end of the service: scaling up does not restart the task any more.
	KillByEarlierScaling KillReason = "scaled"
	// KillByReplacement means that its service starts another task in its place.
	KillByReplacement KillReason = "replaced"
	// KillByDrain means that an operator drains its agent.
	KillByDrain KillReason = "drained"
	// KillByRequeue means that a user queues its job again.
	KillByRequeue KillReason = "requeued"
)

// WarnsTask reports whether a task that is stopped for that reason is warned first.
func (r KillReason) WarnsTask() bool {
	return r == KillByPreemption || r == KillByDrain || r == KillByRequeue || r == KillByTimeout
}

// RequeuesTask reports whether a task killed for that reason is queued again.
func (r KillReason) RequeuesTask() bool {
	return r == KillByPreemption || r == KillByGangRestart || r == KillByReplacement || r == KillByDrain || r == KillByRequeue
}

// State returns the state of the job. While tasks are live it is the most active of their
// states: RUNNING as soon as one runs. After that it is FINISHED if all tasks have
// finished, and otherwise the worst of the other states. Retired tasks count only if all
// tasks are retired.
func (j *Job) State() State {
	state, retired := Finished, true
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.IsRetired() {
			continue
		}
		retired = false
		if t.State.jobRank() > state.jobRank() {
			state = t.State
		}
	}
	if retired && len(j.Tasks) > 0 {
		return Killed
	}
	return state
}

// jobRank orders states by how much they decide about the state of a job: first the ends,
// the worst one last, then the live states, the most active one last.
func (s State) jobRank() int {
	for i, one := range [...]State{Finished, Killed, Lost, Refused, Failed, Waiting, Launching, Staging, Starting, Killing, Unreachable, Running} {
		if s == one {
			return i
		}
	}
	return -1
}

// CountTasks returns the number of tasks in each state, without retired tasks.
func (j *Job) CountTasks() map[State]int {
	count := map[State]int{}
	for i := range j.Tasks {
		if t := &j.Tasks[i]; !t.IsRetired() {
			count[t.State]++
		}
	}
	return count
}

// IsTerminal reports whether every task has ended for good. A service with retired
// tasks is not terminal until it is killed: it may be scaled up again.
func (j *Job) IsTerminal() bool {
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.State.IsLive() || t.IsRetired() {
			return false
		}
	}
	return true
}

// ExitCode returns the first exit code that is not 0, by index. A job that ended
// otherwise than FINISHED without one has the exit code 1.
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

// HeldProducts counts the task's devices that are not shared by product, in records of earlier releases by short type.
func (t *Task) HeldProducts() map[string]int {
	if t.Products == nil {
		return t.GPUTypes
	}
	return t.Products
}

// Clone returns a copy that shares nothing that either side may change. Both have the same Spec.
func (j *Job) Clone() *Job {
	c := *j
	c.Tasks = append([]Task(nil), j.Tasks...)
	for i := range c.Tasks {
		t := &c.Tasks[i]
		t.DeviceIDs, t.Ports = slices.Clone(t.DeviceIDs), slices.Clone(t.Ports)
		t.GPUTypes, t.Products = maps.Clone(t.GPUTypes), maps.Clone(t.Products)
		t.Shares, t.ImageExclusions, t.Addresses = slices.Clone(t.Shares), slices.Clone(t.ImageExclusions), slices.Clone(t.Addresses)
	}
	return &c
}
