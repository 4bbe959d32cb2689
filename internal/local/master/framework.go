package master

import (
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/local/master/alloc"
	"mesos-gpu/internal/local/master/check"
	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/minimesos/events"
)

// Limits of the history, which bound the memory of a long run.
const (
	maxCompletedFrameworks = 50
	maxCompletedTasks      = 1000
)

// frameworkState is a framework that has subscribed and was not removed.
type frameworkState struct {
	info       mesos.FrameworkInfo
	suppressed map[string]bool

	stream   *mesosapi.EventStream // nil while disconnected
	streamID string
	timer    *time.Timer // runs from a disconnect to the failover timeout
	// recovered means that only agents have reported the framework: it has not
	// subscribed to this master yet.
	recovered bool

	registered, reregistered, unregistered time.Time

	tasks       map[string]*masterTask // also terminal ones, until acknowledged
	unreachable map[string]*masterTask // on lost agents
	completed   []*masterTask          // oldest first
}

func newFramework(info mesos.FrameworkInfo) *frameworkState {
	now := time.Now()
	return &frameworkState{
		info:         info,
		registered:   now,
		reregistered: now,
		suppressed:   map[string]bool{},
		tasks:        map[string]*masterTask{},
		unreachable:  map[string]*masterTask{},
	}
}

func (f *frameworkState) id() string { return f.info.ID.Value }

func (f *frameworkState) hasCapability(c mesos.FrameworkInfo_Capability_Type) bool {
	return events.HasCapability(f.info, c)
}

// orLost returns the state that the framework can interpret.
func (f *frameworkState) orLost(state mesos.TaskState) mesos.TaskState {
	return events.OrLost(f.info, state)
}

// sendEvent queues an event. A disconnected framework does not receive it.
func (f *frameworkState) sendEvent(e *scheduler.Event) {
	if f.stream != nil {
		f.stream.Send(e)
	}
}

func (f *frameworkState) stopTimer() {
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
}

func (f *frameworkState) suppressRoles(roles []string) {
	f.suppressed = map[string]bool{}
	for _, role := range roles {
		f.suppressed[role] = true
	}
}

func (f *frameworkState) hasTask(id string) bool {
	return f.tasks[id] != nil || f.unreachable[id] != nil
}

// completeTask moves a task to the list of completed tasks.
func (f *frameworkState) completeTask(t *masterTask) {
	delete(f.tasks, t.id())
	delete(f.unreachable, t.id())
	f.completed = append(f.completed, t)
	if n := len(f.completed) - maxCompletedTasks; n > 0 {
		f.completed = slices.Delete(f.completed, 0, n)
	}
}

// allocatorView returns the framework as input for the allocator.
func (f *frameworkState) allocatorView() alloc.Contender {
	c := alloc.Contender{
		ID:    f.id(),
		GPUs:  f.hasCapability(mesos.FrameworkInfo_Capability_GPU_RESOURCES),
		Least: f.info.OfferFilters,
	}
	for _, role := range check.RolesOf(f.info) {
		if !f.suppressed[role] {
			c.Roles = append(c.Roles, role)
		}
	}
	return c
}
