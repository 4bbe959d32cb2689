package master

import (
	"maps"
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
)

// registeredAgent is one that is registered.
type registeredAgent struct {
	id    mesos.AgentID
	info  mesos.AgentInfo
	total []mesos.Resource
	link  link.AgentLink
	box   *callQueue
	held  map[executorKey]*resourceCharge

	registered, reregistered time.Time
}

type executorKey struct{ framework, executor string }

// resourceCharge is what one executor and its tasks take of an agent. It stands until
// the agent says that the executor has exited, even after its framework is
// gone: until then its processes may still use the devices.
type resourceCharge struct {
	executor mesos.ExecutorInfo
	// command says that the agent supplies the executor, for one command
	// task; such an executor takes nothing itself.
	command bool
	tasks   map[string][]mesos.Resource
}

// chargeTask books a task, and its executor if that is new.
func (a *registeredAgent) chargeTask(framework string, e mesos.ExecutorInfo, command bool, t mesos.TaskInfo) {
	key := executorKey{framework, e.ExecutorID.Value}
	c := a.held[key]
	if c == nil {
		c = &resourceCharge{executor: e, command: command, tasks: map[string][]mesos.Resource{}}
		a.held[key] = c
	}
	c.tasks[t.TaskID.Value] = t.Resources
}

// releaseTask gives back what a task took.
func (a *registeredAgent) releaseTask(framework, task string) {
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

// findExecutor finds a framework's executor; those of command tasks are the
// agent's own.
func (a *registeredAgent) findExecutor(framework, id string) (mesos.ExecutorInfo, bool) {
	c := a.held[executorKey{framework, id}]
	if c == nil || c.command {
		return mesos.ExecutorInfo{}, false
	}
	return c.executor, true
}

// sortedKeys are the charges' keys in a fixed order.
func (a *registeredAgent) sortedKeys() []executorKey {
	return slices.SortedFunc(maps.Keys(a.held), func(x, y executorKey) int {
		return strings.Compare(x.framework+"/"+x.executor, y.framework+"/"+y.executor)
	})
}

// visitUsed lists what is in use, by whom.
func (a *registeredAgent) visitUsed(visit func(framework string, rs []mesos.Resource)) {
	for _, key := range a.sortedKeys() {
		c := a.held[key]
		visit(key.framework, c.executor.Resources)
		for _, id := range slices.Sorted(maps.Keys(c.tasks)) {
			visit(key.framework, c.tasks[id])
		}
	}
}

// usedResources is all that is in use, of one framework or, without one, of
// all.
func (a *registeredAgent) usedResources(framework string) [][]mesos.Resource {
	var all [][]mesos.Resource
	a.visitUsed(func(owner string, rs []mesos.Resource) {
		if framework == "" || framework == owner {
			all = append(all, rs)
		}
	})
	return all
}

// sortedValues lists m's values by key.
func sortedValues[V any](m map[string]V) []V {
	out := make([]V, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[key])
	}
	return out
}
