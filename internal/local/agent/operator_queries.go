package agent

import (
	"cmp"
	"context"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"

	"mesos-gpu/internal/local/link"
)

func getHealth(*EmbeddedAgent, context.Context, *agent.Call) (*agent.Response, int, error) {
	return &agent.Response{Type: agent.Response_GET_HEALTH, GetHealth: &agent.Response_GetHealth{Healthy: true}}, 0, nil
}

func getVersion(*EmbeddedAgent, context.Context, *agent.Call) (*agent.Response, int, error) {
	return &agent.Response{
		Type: agent.Response_GET_VERSION, GetVersion: &agent.Response_GetVersion{VersionInfo: mesos.VersionInfo{Version: link.Version}},
	}, 0, nil
}

func getFlags(*EmbeddedAgent, context.Context, *agent.Call) (*agent.Response, int, error) {
	return &agent.Response{Type: agent.Response_GET_FLAGS, GetFlags: &agent.Response_GetFlags{}}, 0, nil
}

func getOperations(*EmbeddedAgent, context.Context, *agent.Call) (*agent.Response, int, error) {
	return &agent.Response{Type: agent.Response_GET_OPERATIONS, GetOperations: &agent.Response_GetOperations{}}, 0, nil
}

func getAgent(a *EmbeddedAgent, _ context.Context, _ *agent.Call) (*agent.Response, int, error) {
	info := a.info
	return &agent.Response{Type: agent.Response_GET_AGENT, GetAgent: &agent.Response_GetAgent{AgentInfo: &info}}, 0, nil
}

func getResourceProviders(a *EmbeddedAgent, _ context.Context, _ *agent.Call) (*agent.Response, int, error) {
	list := &agent.Response_GetResourceProviders{}
	for _, p := range a.providers.Providers() {
		list.ResourceProviders = append(list.ResourceProviders, agent.Response_GetResourceProviders_ResourceProvider{
			ResourceProviderInfo: p.Info, TotalResources: p.Resources,
		})
	}
	return &agent.Response{Type: agent.Response_GET_RESOURCE_PROVIDERS, GetResourceProviders: list}, 0, nil
}

func getTasks(a *EmbeddedAgent, ctx context.Context, _ *agent.Call) (*agent.Response, int, error) {
	tasks, err := askLoop(ctx, a.loop, a.describeTasks)
	return &agent.Response{Type: agent.Response_GET_TASKS, GetTasks: tasks}, 0, err
}

func getExecutors(a *EmbeddedAgent, ctx context.Context, _ *agent.Call) (*agent.Response, int, error) {
	executors, err := askLoop(ctx, a.loop, a.describeExecutors)
	return &agent.Response{Type: agent.Response_GET_EXECUTORS, GetExecutors: executors}, 0, err
}

func getFrameworks(a *EmbeddedAgent, ctx context.Context, _ *agent.Call) (*agent.Response, int, error) {
	frameworks, err := askLoop(ctx, a.loop, a.describeFrameworks)
	return &agent.Response{Type: agent.Response_GET_FRAMEWORKS, GetFrameworks: frameworks}, 0, err
}

func getState(a *EmbeddedAgent, ctx context.Context, _ *agent.Call) (*agent.Response, int, error) {
	state, err := askLoop(ctx, a.loop, func() *agent.Response_GetState {
		return &agent.Response_GetState{GetTasks: a.describeTasks(), GetExecutors: a.describeExecutors(), GetFrameworks: a.describeFrameworks()}
	})
	return &agent.Response{Type: agent.Response_GET_STATE, GetState: state}, 0, err
}

func getContainers(a *EmbeddedAgent, ctx context.Context, call *agent.Call) (*agent.Response, int, error) {
	nested := call.GetContainers.GetShowNested()
	containers, err := askLoop(ctx, a.loop, func() *agent.Response_GetContainers { return a.describeContainers(nested) })
	return &agent.Response{Type: agent.Response_GET_CONTAINERS, GetContainers: containers}, 0, err
}

// sortedExecutors returns the running executors in a stable order.
func (a *EmbeddedAgent) sortedExecutors() []*executorState {
	all := slices.Collect(a.liveExecutors())
	slices.SortFunc(all, func(x, y *executorState) int {
		return cmp.Or(strings.Compare(x.framework.id(), y.framework.id()), strings.Compare(x.id(), y.id()))
	})
	return all
}

func (a *EmbeddedAgent) describeExecutors() *agent.Response_GetExecutors {
	list := &agent.Response_GetExecutors{}
	for _, e := range a.sortedExecutors() {
		list.Executors = append(list.Executors, agent.Response_GetExecutors_Executor{ExecutorInfo: e.info})
	}
	for _, e := range a.completed.executors {
		list.CompletedExecutors = append(list.CompletedExecutors, agent.Response_GetExecutors_Executor{ExecutorInfo: e.info})
	}
	return list
}

func (a *EmbeddedAgent) describeFrameworks() *agent.Response_GetFrameworks {
	list := &agent.Response_GetFrameworks{}
	for _, f := range a.frameworks {
		list.Frameworks = append(list.Frameworks, agent.Response_GetFrameworks_Framework{FrameworkInfo: f.info})
	}
	for _, f := range a.completed.frameworks {
		list.CompletedFrameworks = append(list.CompletedFrameworks, agent.Response_GetFrameworks_Framework{FrameworkInfo: f.info})
	}
	return list
}

func (a *EmbeddedAgent) describeContainers(nested bool) *agent.Response_GetContainers {
	list := &agent.Response_GetContainers{}
	for _, e := range a.sortedExecutors() {
		if e.box == nil {
			continue
		}
		list.Containers = append(list.Containers, e.describeContainer(e.containerID(), e.box.Pid()))
		for _, n := range e.nested {
			if nested && n.box != nil && !n.over {
				list.Containers = append(list.Containers, e.describeContainer(containerID(n.ids), n.box.Pid()))
			}
		}
	}
	return list
}

func (e *executorState) describeContainer(id mesos.ContainerID, pid int) agent.Response_GetContainers_Container {
	name, number := e.info.GetName(), uint32(pid)
	return agent.Response_GetContainers_Container{
		FrameworkID: e.framework.info.ID, ExecutorID: &e.info.ExecutorID, ExecutorName: &name, ContainerID: id,
		ContainerStatus: &mesos.ContainerStatus{ContainerID: &id, ExecutorPID: &number},
	}
}

// containerID is the inverse of containerPath.
func containerID(ids []string) mesos.ContainerID {
	id := mesos.ContainerID{Value: ids[0]}
	for _, value := range ids[1:] {
		parent := id
		id = mesos.ContainerID{Value: value, Parent: &parent}
	}
	return id
}

// describeTasks lists all tasks, grouped by their phase.
func (a *EmbeddedAgent) describeTasks() *agent.Response_GetTasks {
	list := &agent.Response_GetTasks{}
	for _, e := range append(a.sortedExecutors(), a.completed.executors...) {
		for _, t := range e.tasks {
			d := a.describeTask(e, t)
			switch {
			case t.acked:
				list.CompletedTasks = append(list.CompletedTasks, d)
			case !t.isLive():
				list.TerminatedTasks = append(list.TerminatedTasks, d)
			case t.sent:
				list.LaunchedTasks = append(list.LaunchedTasks, d)
			default:
				list.QueuedTasks = append(list.QueuedTasks, d)
			}
		}
	}
	return list
}

func (a *EmbeddedAgent) describeTask(e *executorState, t *taskState) mesos.Task {
	state := t.state
	return mesos.Task{
		Name: t.info.Name, TaskID: t.info.TaskID, FrameworkID: *e.framework.info.ID, ExecutorID: &e.info.ExecutorID,
		AgentID: *a.info.ID, State: &state, Resources: t.info.Resources, Statuses: slices.Clone(t.statuses),
		Labels: t.info.Labels, Discovery: t.info.Discovery, Container: t.info.Container, HealthCheck: t.info.HealthCheck,
		KillPolicy: t.info.KillPolicy,
	}
}
