// Package task has the types that the executor shares with its runtimes: the
// specification of a task, the interfaces of a runtime and a running task, and
// the exit status. It contains no decisions about processes or containers; the
// packages docker and unified make them.
package task

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// TaskSpec is everything that a runtime needs to run a task.
type TaskSpec struct {
	ID        string
	Framework string
	// Job and Index identify the task within its job. For tasks of other
	// frameworks they are the task's name and 0.
	Job   string
	Index int
	// Warn is sent before SIGTERM if a KILL leaves time for it, nil for none. WarnPort is
	// the port of its HTTP request.
	Warn     *job.Warning
	WarnPort int
	// Container is the executor's own container, the parent of nested
	// containers.
	Container     mesos.ContainerID
	Containerizer job.Containerizer
	// Image is empty for a task in the agent's own file system.
	Image string
	// Argv are the arguments of the image's entrypoint or, without an image,
	// the whole command. Entrypoint, if set, replaces the image's entrypoint.
	Argv       []string
	Entrypoint []string
	// ImageEntrypoint runs the entrypoint of a nested container's image with
	// Argv as its arguments. Otherwise Argv replaces the entrypoint.
	ImageEntrypoint bool
	Env             map[string]string
	// Secrets maps variables to the names of secrets on the agent. The
	// executor adds their values to Env.
	Secrets map[string]string
	// SecretFiles maps paths in the container, absolute or relative to the
	// sandbox, to the names of secrets. SecretMounts are their mounts, which the
	// executor adds.
	SecretFiles  map[string]string
	SecretMounts []HostMount
	// PullSecret is the name of the secret with the image's registry credentials.
	// PullConfig is the path of its file, which the executor adds.
	PullSecret, PullConfig string
	// HostDevices are device nodes of the agent, or folders of them, that the task may open besides its GPUs.
	HostDevices []string
	// User and Fetch apply to a job's nested container: the user that it runs
	// as, and the files that the agent fetches into its sandbox. For a docker
	// task, the ContainerInfo and the executor's CommandInfo have them.
	User  string
	Fetch []job.FetchArtifact
	// Labels are the TaskInfo's.
	Labels map[string]string

	// The task's resources. Minors and Caps are the N of each /dev/nvidiaN and
	// nvidia-capN that this executor was granted. They are nil (unknown) if no
	// devices cgroup confines the executor.
	CPUs, MemMiB, DiskMiB float64
	GPUs                  int
	DeviceIDs             []string
	// DevicesOfProvider is set if a resource provider offered DeviceIDs.
	DevicesOfProvider bool
	// DeviceShares are the task's shares of devices among DeviceIDs.
	// ShareLimit contains the settings with which its processes' shares are enforced.
	// WholeGPUs is set if the task requested whole GPUs, so that these shares are all
	// of their devices.
	DeviceShares []gpu.DeviceShare
	ShareLimit   ShareLimit
	WholeGPUs    bool
	Minors, Caps []int
	Ports        []mesos.Value_Range
	// Role is the role that the resources are allocated to.
	Role string
	// Limits are the TaskInfo's. A limit may be infinite.
	Limits map[string]float64
	// KillGrace is the time between SIGTERM and SIGKILL.
	KillGrace time.Duration
	// ShutdownDelay is the time between a KILL and SIGTERM, if the KILL has no grace
	// period of its own.
	ShutdownDelay time.Duration
	// HostUser is the user of the machine as whom a docker task runs, nil for the user of its image.
	HostUser *job.HostUser
	// RunsAsOwner is set if the task runs as the user of the machine who owns its job. Account is that user's, which the
	// executor adds.
	RunsAsOwner bool
	Account     *Account
	// Chdir is the folder of the agent in which a task without an image starts, "" for its sandbox.
	Chdir string
	// HealthChecks lists the checks of the TaskInfo and of the job's LaunchData.
	HealthChecks []*mesos.HealthCheck

	// Command and MesosContainer are the TaskInfo's own, if it has them. They
	// can express more than the other fields, so the unified containerizer
	// gets them unchanged.
	Command        *mesos.CommandInfo
	MesosContainer *mesos.ContainerInfo
	// OnMessage, if set, reports a message about the task to its user, such as
	// the progress of an image pull. It does not block.
	OnMessage func(message string)
}

// Account is the account of a user on the agent.
type Account struct {
	Name string
	// Home is the home folder, or "" if the user has none or cannot enter it. Shell is the login shell, or "" if it is unknown.
	Home, Shell string
}

// ShareLimit enforces shares of devices: mounts for a container and variables
// for its processes.
type ShareLimit struct {
	Mounts []HostMount
	Env    map[string]string
	// Devices are all devices of the host, which the variables of shares describe.
	// They are empty if the agent does not know them.
	Devices []gpu.Device
}

// HostMounts returns the mounts that the executor adds to those of the task's
// container.
func (t TaskSpec) HostMounts() []HostMount { return slices.Concat(t.ShareLimit.Mounts, t.SecretMounts) }

// HostMount is a bind mount of the host's Source at the container's Target. A
// relative Target is in the sandbox.
type HostMount struct {
	Source, Target string
	ReadOnly       bool
}

// ReportMessage calls OnMessage, if set.
func (t TaskSpec) ReportMessage(message string) {
	if t.OnMessage != nil {
		t.OnMessage(message)
	}
}

// Runtime starts tasks.
type Runtime interface {
	// Start returns once the task's process runs. If it returns an error, for
	// example because ctx ended, nothing of the task is left.
	Start(ctx context.Context, t TaskSpec) (RunningTask, error)
}

// RunningTask is a started task.
type RunningTask interface {
	// Wait returns after the task has ended and nothing of it holds a device.
	// If ctx ends first, it ends the task by force.
	Wait(ctx context.Context) (ExitStatus, error)
	// Signal sends a signal to the task's first process. It is no error if the
	// task has ended.
	Signal(ctx context.Context, sig syscall.Signal) error
}

// ContainerDescriber is a RunningTask that describes its container: as JSON,
// and by its addresses. There are no addresses if it shares its host's
// network.
type ContainerDescriber interface {
	DescribeContainer() (data []byte, addresses []string)
}

// SandboxOwner is a RunningTask with a working folder other than its executor's sandbox.
type SandboxOwner interface {
	// SandboxPath returns the folder's path in the executor's file system.
	SandboxPath() string
}

// DiskMeasurer is a RunningTask that measures what it wrote outside its
// sandbox.
type DiskMeasurer interface {
	MeasureWritten(ctx context.Context) (bytes int64, err error)
}

// ErrNotReached is wrapped by errors of probes that did not reach the task,
// because its agent is unreachable or the task is ending. They say nothing
// about the task's health.
var ErrNotReached = errors.New("probe did not reach the task")

// ProbeTarget is a RunningTask whose health can be checked.
type ProbeTarget interface {
	// ExecProbe runs a command in the task's container and returns its exit
	// code. env is added to the task's environment. When ctx ends, it ends the
	// command if the runtime can do that.
	ExecProbe(ctx context.Context, argv []string, env map[string]string) (code int, err error)
	// ProbeAddress returns the host address of the task's ports; empty if this
	// process cannot reach the task's network.
	ProbeAddress() string
}
