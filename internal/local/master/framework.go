package master

import (
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/local/master/alloc"
	"mesos-gpu/internal/local/master/check"
	"mesos-gpu/internal/wire"
)

// What is remembered of the past, so that a long run stays small.
const (
	maxCompletedFrameworks = 50
	maxCompletedTasks      = 1000
	maxLostAgents          = 1000
)

// framework is one that subscribed and was not removed.
type framework struct {
	info       mesos.FrameworkInfo
	suppressed map[string]bool

	stream   *wire.Stream // nil while disconnected
	streamID string
	timer    *time.Timer // runs from a disconnect to the failover timeout
	// recovered says that only agents told of it: it has not subscribed to
	// this master yet.
	recovered bool

	registered, reregistered, unregistered time.Time

	tasks       map[string]*task // also terminal ones, until acknowledged
	unreachable map[string]*task // on lost agents
	completed   []*task          // oldest first
}

func newFramework(info mesos.FrameworkInfo) *framework {
	now := time.Now()
	return &framework{
		info:         info,
		registered:   now,
		reregistered: now,
		suppressed:   map[string]bool{},
		tasks:        map[string]*task{},
		unreachable:  map[string]*task{},
	}
}

func (f *framework) id() string { return f.info.ID.Value }

func (f *framework) has(c mesos.FrameworkInfo_Capability_Type) bool { return check.Has(f.info, c) }

func (f *framework) partitionAware() bool {
	return f.has(mesos.FrameworkInfo_Capability_PARTITION_AWARE)
}

// send queues an event; a disconnected framework misses it.
func (f *framework) send(e *scheduler.Event) {
	if f.stream != nil {
		f.stream.Send(e)
	}
}

func (f *framework) stopTimer() {
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
}

func (f *framework) suppress(roles []string) {
	f.suppressed = map[string]bool{}
	for _, role := range roles {
		f.suppressed[role] = true
	}
}

func (f *framework) hasTask(id string) bool {
	return f.tasks[id] != nil || f.unreachable[id] != nil
}

// complete moves a task to the past.
func (f *framework) complete(t *task) {
	delete(f.tasks, t.id())
	delete(f.unreachable, t.id())
	f.completed = append(f.completed, t)
	if n := len(f.completed) - maxCompletedTasks; n > 0 {
		f.completed = slices.Delete(f.completed, 0, n)
	}
}

// contender is the framework as the allocator sees it.
func (f *framework) contender() alloc.Framework {
	c := alloc.Framework{
		ID:    f.id(),
		GPUs:  f.has(mesos.FrameworkInfo_Capability_GPU_RESOURCES),
		Least: f.info.OfferFilters,
	}
	for _, role := range check.Roles(f.info) {
		if !f.suppressed[role] {
			c.Roles = append(c.Roles, role)
		}
	}
	return c
}
