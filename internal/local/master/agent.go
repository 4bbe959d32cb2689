package master

import (
	"maps"
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
)

// agent is one that is registered.
type agent struct {
	id    mesos.AgentID
	info  mesos.AgentInfo
	total []mesos.Resource
	link  link.Agent
	box   *mailbox
	held  map[executorKey]*charge

	registered, reregistered time.Time
}

type executorKey struct{ framework, executor string }

// charge is what one executor and its tasks take of an agent. It stands until
// the agent says that the executor has exited, even after its framework is
// gone: until then its processes may still use the devices.
type charge struct {
	executor mesos.ExecutorInfo
	// command says that the agent supplies the executor, for one command
	// task; such an executor takes nothing itself.
	command bool
	tasks   map[string][]mesos.Resource
}

// charge books a task, and its executor if that is new.
func (a *agent) charge(framework string, e mesos.ExecutorInfo, command bool, t mesos.TaskInfo) {
	key := executorKey{framework, e.ExecutorID.Value}
	c := a.held[key]
	if c == nil {
		c = &charge{executor: e, command: command, tasks: map[string][]mesos.Resource{}}
		a.held[key] = c
	}
	c.tasks[t.TaskID.Value] = t.Resources
}

// release gives back what a task took.
func (a *agent) release(framework, task string) {
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

// executor finds a framework's executor; those of command tasks are the
// agent's own.
func (a *agent) executor(framework, id string) (mesos.ExecutorInfo, bool) {
	c := a.held[executorKey{framework, id}]
	if c == nil || c.command {
		return mesos.ExecutorInfo{}, false
	}
	return c.executor, true
}

// keys are the charges' keys in a fixed order.
func (a *agent) keys() []executorKey {
	return slices.SortedFunc(maps.Keys(a.held), func(x, y executorKey) int {
		return strings.Compare(x.framework+"/"+x.executor, y.framework+"/"+y.executor)
	})
}

// used lists what is in use, by whom.
func (a *agent) used(visit func(framework string, rs []mesos.Resource)) {
	for _, key := range a.keys() {
		c := a.held[key]
		visit(key.framework, c.executor.Resources)
		for _, id := range slices.Sorted(maps.Keys(c.tasks)) {
			visit(key.framework, c.tasks[id])
		}
	}
}

// usedResources is all that is in use, of one framework or, without one, of
// all.
func (a *agent) usedResources(framework string) [][]mesos.Resource {
	var all [][]mesos.Resource
	a.used(func(owner string, rs []mesos.Resource) {
		if framework == "" || framework == owner {
			all = append(all, rs)
		}
	})
	return all
}

// sorted lists m's values by key.
func sorted[V any](m map[string]V) []V {
	out := make([]V, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[key])
	}
	return out
}
