// Package task holds the words that the executor and its runtimes share: one
// task as a runtime is told it, the runtime and what runs in it, and how it
// ended. It decides nothing about processes or containers; packages docker
// and unified do.
package task

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// TaskSpec is all that a runtime needs to know.
type TaskSpec struct {
	ID        string
	Framework string
	// Job and Index name the task among its job's. Other frameworks' tasks
	// have their name and 0.
	Job   string
	Index int
	// Container is the executor's own container; nested ones are its
	// children.
	Container     mesos.ContainerID
	Containerizer job.Containerizer
	// Image is empty for a task in the agent's own file system.
	Image string
	// Argv are the arguments of the image's entrypoint or, without an image,
	// the whole command. Entrypoint replaces the image's where it is set.
	Argv       []string
	Entrypoint []string
	// ImageEntrypoint keeps a nested container's entrypoint, with Argv as its
	// arguments; otherwise Argv takes its place.
	ImageEntrypoint bool
	Env             map[string]string
	// Secrets are variables that Env gets as well once their values are found:
	// each with its name among the agent's secrets.
	Secrets map[string]string
	// User and Fetch are for a job's nested container: whom it runs as, and
	// what the agent puts into its sandbox. A docker task's are said by its
	// ContainerInfo and its executor's CommandInfo.
	User  string
	Fetch []job.FetchArtifact
	// Labels are the TaskInfo's.
	Labels map[string]string

	// What the task holds. Minors and Caps are the N of the /dev/nvidiaN and
	// the nvidia-capN that this executor was granted; they are unknown (nil)
	// where no devices cgroup confines it.
	CPUs, MemMiB, DiskMiB float64
	GPUs                  int
	DeviceIDs             []string
	// DeviceShares are what it holds of those devices that are shared, and Limit what
	// its processes need so that they are held to that.
	DeviceShares []gpu.DeviceShare
	ShareLimit   ShareLimit
	Minors, Caps []int
	Ports        []mesos.Value_Range
	// Role is the one whose resources they are.
	Role string
	// Limits are the TaskInfo's; they may be infinite.
	Limits map[string]float64
	// KillGrace is the time between SIGTERM and SIGKILL.
	KillGrace time.Duration
	// HealthChecks are the TaskInfo's own and those that a job has beside it.
	HealthChecks []*mesos.HealthCheck

	// Command and MesosContainer are Mesos's own description, as far as the
	// task came with one. They say more than the fields above can, so the
	// unified containerizer gets them as they are.
	Command        *mesos.CommandInfo
	MesosContainer *mesos.ContainerInfo
	// OnMessage, where set, passes on what people who wait for the task should
	// know, such as the progress of an image's pull. It returns at once.
	OnMessage func(message string)
}

// ShareLimit is what holds processes to parts of devices: mounts in a container and
// variables for its processes.
type ShareLimit struct {
	Mounts []HostMount
	Env    map[string]string
}

// HostMount is a bind mount of the host's Source at the container's Target.
type HostMount struct {
	Source, Target string
	ReadOnly       bool
}

// ReportMessage tells, where there is somebody to tell.
func (t TaskSpec) ReportMessage(message string) {
	if t.OnMessage != nil {
		t.OnMessage(message)
	}
}

// Runtime starts tasks.
type Runtime interface {
	// Start returns once the task's process runs. When it returns an error,
	// for a cancelled ctx too, nothing of the task is left behind.
	Start(ctx context.Context, t TaskSpec) (RunningTask, error)
}

// RunningTask is a started task.
type RunningTask interface {
	// Wait returns once the task has ended and nothing of it holds a device
	// any more. When ctx ends first, it ends the task by force.
	Wait(ctx context.Context) (ExitStatus, error)
	// Signal sends the task's first process a signal. A task that has ended
	// is no error.
	Signal(ctx context.Context, sig syscall.Signal) error
}

// ContainerDescriber is a Running that knows its container: its description as JSON
// and its addresses, none where it shares its host's.
type ContainerDescriber interface {
	DescribeContainer() (data []byte, addresses []string)
}

// DiskMeasurer is a Running that can tell what it wrote outside its sandbox.
type DiskMeasurer interface {
	MeasureWritten(ctx context.Context) (bytes int64, err error)
}

// ErrNotReached is in the error of a probe that never reached the task, because
// its agent is away or the task is ending: it says nothing of the task.
var ErrNotReached = errors.New("task was not asked")

// ProbeTarget is a Running whose health can be checked.
type ProbeTarget interface {
	// ExecProbe runs a command beside the task's process, in its environment and
	// env, and returns its status. It ends the command with ctx as far as it
	// can.
	ExecProbe(ctx context.Context, argv []string, env map[string]string) (code int, err error)
	// ProbeAddress is where the task's ports are, empty for a task whose network
	// this process cannot reach.
	ProbeAddress() string
}

// Environment is that of the task's process: what the job asks for, and above
// it what identifies the task and its devices.
func (t TaskSpec) Environment() map[string]string {
	env := make(map[string]string, len(t.Env)+4)
	for name, value := range t.Env {
		env[name] = value
	}
	if t.Job != "" { // not every framework names its tasks
		env["MESOS_GPU_JOB"] = t.Job
		env["MESOS_GPU_TASK_INDEX"] = strconv.Itoa(t.Index)
	}
	if t.Role != "" {
		env["MESOS_ALLOCATION_ROLE"] = t.Role
	}
	for name, value := range t.ShareLimit.Env {
		env[name] = value
	}
	env["MESOS_TASK_ID"] = t.ID
	env["NVIDIA_VISIBLE_DEVICES"] = t.visibleDevices()
	return env
}

// visibleDevices is for NVIDIA's container toolkit, which may be the engine's
// default runtime: "void" keeps it from adding every GPU of the host to a
// container that was given none, or whose devices have no names here.
func (t TaskSpec) visibleDevices() string {
	if t.GPUs == 0 || len(t.DeviceIDs) == 0 {
		return "void"
	}
	return strings.Join(t.DeviceIDs, ",")
}
