package agent

import (
	"context"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/updates"
	"mesos-gpu/isolator"
)

// frameworkState is a framework with executors on this agent.
type frameworkState struct {
	info      mesos.FrameworkInfo
	executors map[string]*executorState
	// ending is set by ShutdownFramework. Statuses of its tasks are then dropped.
	ending bool
}

func (f *frameworkState) id() string { return f.info.GetID().GetValue() }

// missingTaskState returns the state reported for a task that the agent does
// not have.
func (f *frameworkState) missingTaskState() mesos.TaskState {
	return events.OrLost(f.info, mesos.TASK_DROPPED)
}

// executorPhase is a phase of an executor's life.
type executorPhase int

const (
	// starting: the container is being created, or the executor has not
	// subscribed.
	starting executorPhase = iota
	// running: the executor has subscribed.
	running
	// ending: the executor is shutting down or being killed.
	ending
	// ended: no process of the executor runs.
	ended
)

// executorState is one run of an executor.
type executorState struct {
	framework *frameworkState
	info      mesos.ExecutorInfo
	// supplied means that the agent chose the command.
	supplied bool
	// container is the container's id and sandbox its folder. command is the
	// executor's command, which sessions inside the container inherit.
	container string
	sandbox   string
	command   container.Command
	phase     executorPhase
	// tasks are in launch order.
	tasks  []*taskState
	stream *mesosapi.EventStream
	// box is nil until the container runs. abort cancels the launch before
	// that.
	box   *container.RunningContainer
	abort context.CancelFunc
	// grant is the container's current device grant, computed from the devices
	// in granted.
	grant   isolator.DeviceGrant
	granted grantKey
	// updating is set while resources for new tasks are being published.
	updating bool
	// resizing is set while the grant is being changed outside the loop. later
	// contains the functions that run after that.
	resizing bool
	later    []func()
	nested   map[string]*nestedContainer
	exited   bool
	// why is the reason reported for its tasks. It is zero if the executor
	// exited by itself.
	why termination
}

// termination is the reason for which the agent ends a container.
type termination struct {
	reason  *mesos.TaskStatus_Reason
	message string
}

func (e *executorState) id() string { return e.info.ExecutorID.Value }

// isCompleted reports whether the executor has ended and its tasks have terminal
// statuses.
func (e *executorState) isCompleted() bool { return e.framework.executors[e.id()] != e }

func (e *executorState) killGrace(usual time.Duration) time.Duration {
	if d := e.info.ShutdownGracePeriod; d != nil {
		return time.Duration(d.Nanoseconds)
	}
	return usual
}

func (e *executorState) findTask(id string) *taskState {
	for _, t := range e.tasks {
		if t.info.TaskID.Value == id {
			return t
		}
	}
	return nil
}

func (e *executorState) containerID() mesos.ContainerID { return mesos.ContainerID{Value: e.container} }

// allocatedResources returns the resources of the executor and its live tasks.
func (e *executorState) allocatedResources() []mesos.Resource {
	all := append([]mesos.Resource(nil), e.info.Resources...)
	for _, t := range e.tasks {
		if t.isLive() {
			all = append(all, t.info.Resources...)
		}
	}
	return all
}

// taskState is a task of an executor.
type taskState struct {
	info  mesos.TaskInfo
	state mesos.TaskState
	// stored is the state of the last status that was stored. A task that has
	// ended releases its devices first, and is not live meanwhile.
	stored mesos.TaskState
	// ready means that the task's resources are granted to the container. sent
	// means that the executor has received the task.
	ready, sent bool
	// acked is set once the framework has acknowledged the terminal status.
	acked bool
}

func (t *taskState) isLive() bool { return !events.IsTerminal(t.state) }

// pendingExit is an ExecutorExited message that waits until the terminal
// statuses of the executor's tasks have been sent.
type pendingExit struct {
	framework mesos.FrameworkID
	executor  mesos.ExecutorID
	status    int32
	waits     map[updates.TaskKey]bool
}

// maxCompleted limits the number of ended executors that the operator API shows.
// Those with an unacknowledged status are shown beyond it.
const maxCompleted = 150
