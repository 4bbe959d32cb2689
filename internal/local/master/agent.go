package master

import (
	"maps"
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
)

// registeredAgent is a registered agent.
type registeredAgent struct {
	id    mesos.AgentID
	info  mesos.AgentInfo
	total []mesos.Resource
	link  link.AgentLink
	calls *link.CallQueue // to link, also from earlier registrations of it
	held  map[executorKey]*resourceCharge
	// killed has the tasks that frameworks have killed. The kill is repeated when
	// the agent registers again with one of them.
	killed map[taskKey]bool
	// allUsed is the result of usedResources for all frameworks, nil after a change of held.
	allUsed [][]mesos.Resource

	registered, reregistered time.Time
}

// callAgent queues a call to an agent. A goroutine exists only while calls are
// queued, and an agent that hangs does not delay the calls to others.
func (m *EmbeddedMaster) callAgent(a *registeredAgent, call func()) {
	if a.calls.Post(call) {
		m.workers.Go(a.calls.RunCalls)
	}
}

type (
	executorKey struct{ framework, executor string }
	taskKey     struct{ framework, task string }
)

// lostAgent is an unreachable agent. Calls that were queued for it may still
// arrive.
type lostAgent struct {
	since mesos.TimeInfo
	link  link.AgentLink
	calls *link.CallQueue
}

// resourceCharge is the resources that one executor and its tasks use on an
// agent. It remains until the agent reports the executor's exit, even if its
// framework has been removed, because its processes may still use the devices.
type resourceCharge struct {
	executor mesos.ExecutorInfo
	// command means that the agent supplies the executor for one command task, or
	// that the agent did not list the executor when it registered again. No
	// resources are charged for such an executor, although it may run.
	command bool
	tasks   map[string][]mesos.Resource
}

// chargeTask charges a task, and its executor if it is new.
func (a *registeredAgent) chargeTask(framework string, e mesos.ExecutorInfo, command bool, t mesos.TaskInfo) {
	key := executorKey{framework, e.ExecutorID.Value}
	c := a.held[key]
	switch {
	case c == nil:
		a.chargeExecutor(key, e, command)
		c = a.held[key]
	case c.command && !command:
		c.executor, c.command = e, false
	}
	c.tasks[t.TaskID.Value] = t.Resources
	a.allUsed = nil
}

// releaseTask releases a task's resources.
func (a *registeredAgent) releaseTask(framework, task string) {
	a.allUsed = nil
	for key, c := range a.held {
		if key.framework != framework {
			continue
		}
		delete(c.tasks, task)
		if c.command && len(c.tasks) == 0 {
			delete(a.held, key)
		}
	}
}

// chargeExecutor charges an executor without tasks.
func (a *registeredAgent) chargeExecutor(key executorKey, e mesos.ExecutorInfo, command bool) {
	a.held[key] = &resourceCharge{executor: e, command: command, tasks: map[string][]mesos.Resource{}}
	a.allUsed = nil
}

// removeUnlisted removes executors from the charges that the agent has not listed
// when it registered again. They may run: a launch may have arrived since the
// agent wrote its list. Their tasks remain charged.
func (a *registeredAgent) removeUnlisted(listed map[executorKey]bool) {
	for key, c := range a.held {
		if c.command || listed[key] {
			continue
		}
		c.executor.Resources, c.command = nil, true
		if len(c.tasks) == 0 {
			delete(a.held, key)
		}
	}
	a.allUsed = nil
}

// releaseExecutor releases what an executor and its tasks use.
func (a *registeredAgent) releaseExecutor(key executorKey) {
	delete(a.held, key)
	a.allUsed = nil
}

// findExecutor returns a framework's executor. It ignores those for which no
// resources are charged.
func (a *registeredAgent) findExecutor(framework, id string) (mesos.ExecutorInfo, bool) {
	c := a.held[executorKey{framework, id}]
	if c == nil || c.command {
		return mesos.ExecutorInfo{}, false
	}
	return c.executor, true
}

// sortedKeys returns the keys of the charges in sorted order.
func (a *registeredAgent) sortedKeys() []executorKey {
	return slices.SortedFunc(maps.Keys(a.held), func(x, y executorKey) int {
		return strings.Compare(x.framework+"/"+x.executor, y.framework+"/"+y.executor)
	})
}

// usedResources returns the resources used by one framework, or by all if
// framework is empty. The result is read only.
func (a *registeredAgent) usedResources(framework string) [][]mesos.Resource {
	if framework == "" && a.allUsed != nil {
		return a.allUsed
	}
	all := [][]mesos.Resource{}
	for _, key := range a.sortedKeys() {
		if framework != "" && framework != key.framework {
			continue
		}
		c := a.held[key]
		all = append(append(all, c.executor.Resources), sortedValues(c.tasks)...)
	}
	all = slices.Clip(all) // an append copies
	if framework == "" {
		a.allUsed = all
	}
	return all
}

// sortedValues returns m's values, sorted by key.
func sortedValues[V any](m map[string]V) []V {
	out := make([]V, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[key])
	}
	return out
}
