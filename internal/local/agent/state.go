package agent

import (
	"context"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/local/agent/status"
	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/wire"
	"mesos-gpu/isolator"
)

// framework is one that has executors here.
type framework struct {
	info      mesos.FrameworkInfo
	executors map[string]*executorRun
	// ending is set by ShutdownFramework: nobody hears of its tasks any more.
	ending bool
}

func (f *framework) id() string { return f.info.GetID().GetValue() }

// gone is the state of a task that the framework's agent does not have.
func (f *framework) gone() mesos.TaskState {
	for _, c := range f.info.GetCapabilities() {
		if c.Type == mesos.FrameworkInfo_Capability_PARTITION_AWARE {
			return mesos.TASK_DROPPED
		}
	}
	return mesos.TASK_LOST
}

// phase is how far an executor has come.
type phase int

const (
	// starting: its container is being made, or it has yet to subscribe.
	starting phase = iota
	// running: it has subscribed.
	running
	// ending: it was told to shut down, or is being killed.
	ending
	// ended: nothing of it runs.
	ended
)

// executorRun is one run of an executor.
type executorRun struct {
	framework *framework
	info      mesos.ExecutorInfo
	// supplied says that the agent chose the command.
	supplied bool
	// container is its id, sandbox its folder. command is what runs there,
	// for sessions beside it.
	container string
	sandbox   string
	command   container.Command
	phase     phase
	// tasks in launch order, by id.
	tasks  []*task
	stream *wire.Stream
	// box is nil until the container runs; abort ends the launch before.
	box   *container.Container
	abort context.CancelFunc
	// grant is what the container may open, of the devices in granted.
	grant   isolator.Grant
	granted grantKey
	// updating says that resources for new tasks are being published.
	updating bool
	// resizing says that the grant is being changed beside the loop; later
	// is what waits for that.
	resizing bool
	later    []func()
	nested   map[string]*nestedRun
	exited   bool
	// why is what its tasks are told when it ends; zero for an end of its own.
	why termination
}

// termination is the agent's reason to end a container.
type termination struct {
	reason  *mesos.TaskStatus_Reason
	message string
}

func (e *executorRun) id() string { return e.info.ExecutorID.Value }

func (e *executorRun) grace(usual time.Duration) time.Duration {
	if d := e.info.ShutdownGracePeriod; d != nil {
		return time.Duration(d.Nanoseconds)
	}
	return usual
}

func (e *executorRun) task(id string) *task {
	for _, t := range e.tasks {
		if t.info.TaskID.Value == id {
			return t
		}
	}
	return nil
}

func (e *executorRun) containerID() mesos.ContainerID { return mesos.ContainerID{Value: e.container} }

// resources are the executor's and its live tasks'.
func (e *executorRun) resources() []mesos.Resource {
	all := append([]mesos.Resource(nil), e.info.Resources...)
	for _, t := range e.tasks {
		if t.live() {
			all = append(all, t.info.Resources...)
		}
	}
	return all
}

// task is one task of an executor.
type task struct {
	info  mesos.TaskInfo
	state mesos.TaskState
	// group counts the launch it came by; tasks of a group share it.
	group *group
	// ready says that the container has its resources, sent that the
	// executor was told.
	ready, sent bool
	statuses    []mesos.TaskStatus
	// acked is set once the framework has its terminal status.
	acked bool
}

// group is one LAUNCH or LAUNCH_GROUP.
type group struct{ together bool }

func (t *task) live() bool { return !link.Terminal(t.state) }

// maxStatuses bounds how many statuses of a task are kept for people.
const maxStatuses = 16

func (t *task) record(s mesos.TaskStatus) {
	t.state = s.GetState()
	t.statuses = append(t.statuses, s)
	if len(t.statuses) > maxStatuses {
		t.statuses = t.statuses[1:]
	}
}

// exit is an ExecutorExited that waits until its tasks' terminal statuses
// have been sent.
type exit struct {
	framework mesos.FrameworkID
	executor  mesos.ExecutorID
	status    int32
	waits     map[status.Key]bool
}

// completed are ended executors, kept for people; the oldest go first.
type completed struct {
	executors  []*executorRun
	frameworks []*framework
}

// maxCompleted bounds each of the two.
const maxCompleted = 150

func (c *completed) add(e *executorRun) {
	c.executors = append(c.executors, e)
	if len(c.executors) > maxCompleted {
		c.executors = c.executors[1:]
	}
}

func (c *completed) addFramework(f *framework) {
	c.dropFramework(f.id())
	c.frameworks = append(c.frameworks, f)
	if len(c.frameworks) > maxCompleted {
		c.frameworks = c.frameworks[1:]
	}
}

// dropFramework forgets a framework that has executors again.
func (c *completed) dropFramework(id string) {
	c.frameworks = slices.DeleteFunc(c.frameworks, func(f *framework) bool { return f.id() == id })
}
