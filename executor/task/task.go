// Package task holds the words that the executor and its runtimes share: one
// task as a runtime is told it, the runtime and what runs in it, and how it
// ended. It decides nothing about processes or containers; packages docker
// and unified do.
package task

import (
	"context"
	"strconv"
	"strings"
	"syscall"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/job"
)

// Task is all that a runtime needs to know.
type Task struct {
	ID        string
	Framework string
	// Container is the executor's own container; nested ones are its
	// children.
	Container mesos.ContainerID
	Launch    job.Launch
	// Minors and Caps are the N of the /dev/nvidiaN and the nvidia-capN that
	// this executor was granted.
	// They are unknown (nil) where no devices cgroup confines it.
	Minors, Caps []int
	// Entrypoint replaces the image's where it is set.
	Entrypoint []string
	// Command and MesosContainer are Mesos's own description where the task
	// came with one instead of a Launch. They say more than Launch can (URIs,
	// user, volumes), so the unified containerizer gets them as they are.
	Command        *mesos.CommandInfo
	MesosContainer *mesos.ContainerInfo
	// Limits and Ports are the TaskInfo's: its limits, which may be infinite,
	// and the ports among its resources.
	Limits map[string]float64
	Ports  []mesos.Value_Range
	// Role is the one whose resources the task holds.
	Role string
	// Tell, where set, passes on what people who wait for the task should
	// know, such as the progress of an image's pull. It returns at once.
	Tell func(message string)
}

// Say tells, where there is somebody to tell.
func (t Task) Say(message string) {
	if t.Tell != nil {
		t.Tell(message)
	}
}

// Runtime starts tasks.
type Runtime interface {
	// Start returns once the task's process runs. When it returns an error,
	// for a cancelled ctx too, nothing of the task is left behind.
	Start(ctx context.Context, t Task) (Running, error)
}

// Running is a started task.
type Running interface {
	// Wait returns once the task has ended and nothing of it holds a device
	// any more. When ctx ends first, it ends the task by force.
	Wait(ctx context.Context) (Exit, error)
	// Signal sends the task's first process a signal. A task that has ended
	// is no error.
	Signal(ctx context.Context, sig syscall.Signal) error
}

// Described is a Running that knows its container: its description as JSON
// and its addresses, none where it shares its host's.
type Described interface {
	Described() (data []byte, addresses []string)
}

// Probed is a Running whose health can be checked.
type Probed interface {
	// Exec runs a command beside the task's process and returns its status.
	Exec(ctx context.Context, argv []string, env map[string]string) (code int, err error)
	// Address is where the task's ports are, empty for a task without a
	// network.
	Address() string
}

// Env is the environment of the task's process: what the job asks for, and
// above it what identifies the task and its devices.
func (t Task) Env() map[string]string {
	env := make(map[string]string, len(t.Launch.Env)+4)
	for name, value := range t.Launch.Env {
		env[name] = value
	}
	if t.Launch.Job != "" { // tasks of other frameworks have none
		env["MESOS_GPU_JOB"] = t.Launch.Job
		env["MESOS_GPU_TASK_INDEX"] = strconv.Itoa(t.Launch.Index)
	}
	if t.Role != "" {
		env["MESOS_ALLOCATION_ROLE"] = t.Role
	}
	env["MESOS_TASK_ID"] = t.ID
	env["NVIDIA_VISIBLE_DEVICES"] = t.visibleDevices()
	return env
}

// visibleDevices is for NVIDIA's container toolkit, which may be the engine's
// default runtime: "void" keeps it from adding every GPU of the host to a
// container that was given none, or whose devices have no names here.
func (t Task) visibleDevices() string {
	if t.Launch.GPUs == 0 || len(t.Launch.DeviceIDs) == 0 {
		return "void"
	}
	return strings.Join(t.Launch.DeviceIDs, ",")
}
