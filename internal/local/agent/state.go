package agent

import (
	"context"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/local/agent/status"
	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/isolator"
)

// frameworkState is one that has executors here.
type frameworkState struct {
	info      mesos.FrameworkInfo
	executors map[string]*executorState
	// ending is set by ShutdownFramework. Statuses of its tasks are then dropped.
	ending bool
}

func (f *frameworkState) id() string { return f.info.GetID().GetValue() }

// missingTaskState is the state of a task that the framework's agent does not have.
func (f *frameworkState) missingTaskState() mesos.TaskState {
	for _, c := range f.info.GetCapabilities() {
		if c.Type == mesos.FrameworkInfo_Capability_PARTITION_AWARE {
			return mesos.TASK_DROPPED
		}
	}
	return mesos.TASK_LOST
}

// executorPhase is how far an executor has come.
type executorPhase int

const (
	// starting: its container is being made, or it has yet to subscribe.
	starting executorPhase = iota
	// running: it has subscribed.
	running
	// ending: it was told to shut down, or is being killed.
	ending
	// ended: nothing of it runs.
	ended
)

// executorState is one run of an executor.
type executorState struct {
	framework *frameworkState
	info      mesos.ExecutorInfo
	// supplied says that the agent chose the command.
	supplied bool
	// container is its id, sandbox its folder. command is what runs there;
	// sessions inside the container inherit it.
	container string
	sandbox   string
	command   container.Command
	phase     executorPhase
	// tasks in launch order, by id.
	tasks  []*taskState
	stream *mesosapi.EventStream
	// box is nil until the container runs; abort ends the launch before.
	box   *container.RunningContainer
	abort context.CancelFunc
	// grant is what the container may open, of the devices in granted.
	grant   isolator.DeviceGrant
	granted grantKey
	// updating says that resources for new tasks are being published.
	updating bool
	// resizing is set while the grant is being changed outside the loop; later
	// holds the functions that wait for that.
	resizing bool
	later    []func()
	nested   map[string]*nestedContainer
	exited   bool
	// why is the reason reported for its tasks; zero if it ended by itself.
	why termination
}

// termination is the agent's reason to end a container.
type termination struct {
	reason  *mesos.TaskStatus_Reason
	message string
}

func (e *executorState) id() string { return e.info.ExecutorID.Value }

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

// allocatedResources are the executor's and its live tasks'.
func (e *executorState) allocatedResources() []mesos.Resource {
	all := append([]mesos.Resource(nil), e.info.Resources...)
	for _, t := range e.tasks {
		if t.isLive() {
			all = append(all, t.info.Resources...)
		}
	}
	return all
}

// taskState is one task of an executor.
type taskState struct {
	info  mesos.TaskInfo
	state mesos.TaskState
	// group counts the launch it came by; tasks of a group share it.
	group *taskGroup
	// ready says that the container has its resources, sent that the
	// executor was told.
	ready, sent bool
	statuses    []mesos.TaskStatus
	// acked is set once the framework has its terminal status.
	acked bool
}

// taskGroup is one LAUNCH or LAUNCH_GROUP.
type taskGroup struct{ together bool }

func (t *taskState) isLive() bool { return !link.IsTerminal(t.state) }

// maxStatuses bounds how many statuses of a task are kept for people.
const maxStatuses = 16

func (t *taskState) recordStatus(s mesos.TaskStatus) {
	t.state = s.GetState()
	t.statuses = append(t.statuses, s)
	if len(t.statuses) > maxStatuses {
		t.statuses = t.statuses[1:]
	}
}

// pendingExit is an ExecutorExited that waits until its tasks' terminal statuses
// have been sent.
type pendingExit struct {
	framework mesos.FrameworkID
	executor  mesos.ExecutorID
	status    int32
	waits     map[status.TaskKey]bool
}

// completedExecutors are ended executors, kept for people; the oldest go first.
type completedExecutors struct {
	executors  []*executorState
	frameworks []*frameworkState
}

// maxCompleted bounds each of the two.
const maxCompleted = 150

func (c *completedExecutors) addExecutor(e *executorState) {
	c.executors = append(c.executors, e)
	if len(c.executors) > maxCompleted {
		c.executors = c.executors[1:]
	}
}

func (c *completedExecutors) addFramework(f *frameworkState) {
	c.dropFramework(f.id())
	c.frameworks = append(c.frameworks, f)
	if len(c.frameworks) > maxCompleted {
		c.frameworks = c.frameworks[1:]
	}
}

// dropFramework forgets a framework that has executors again.
func (c *completedExecutors) dropFramework(id string) {
	c.frameworks = slices.DeleteFunc(c.frameworks, func(f *frameworkState) bool { return f.id() == id })
}
