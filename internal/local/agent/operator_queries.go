package agent

import (
	"cmp"
	"context"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"

	"mesos-gpu/internal/local/agent/files"
	"mesos-gpu/internal/minimesos/events"
)

// answerQuery answers a read-only call. It returns nil for other calls.
func (a *EmbeddedAgent) answerQuery(ctx context.Context, call *agent.Call) (*agent.Response, error) {
	if call.Type == agent.Call_READ_FILE {
		return a.readFile(call.ReadFile)
	}
	if call.Type == agent.Call_LIST_FILES {
		return a.listFiles(call.ListFiles)
	}
	return askLoop(ctx, a.loop, func() (*agent.Response, error) {
		switch call.Type {
		case agent.Call_GET_AGENT:
			return &agent.Response{Type: agent.Response_GET_AGENT, GetAgent: &agent.Response_GetAgent{AgentInfo: new(a.info)}}, nil
		case agent.Call_GET_CONTAINERS:
			return &agent.Response{Type: agent.Response_GET_CONTAINERS, GetContainers: a.describeContainers(call.GetContainers.GetShowNested())}, nil
		case agent.Call_GET_EXECUTORS:
			return &agent.Response{Type: agent.Response_GET_EXECUTORS, GetExecutors: a.describeExecutors()}, nil
		case agent.Call_GET_TASKS:
			return &agent.Response{Type: agent.Response_GET_TASKS, GetTasks: a.describeTasks()}, nil
		case agent.Call_GET_STATE:
			return &agent.Response{
				Type:     agent.Response_GET_STATE,
				GetState: &agent.Response_GetState{GetTasks: a.describeTasks(), GetExecutors: a.describeExecutors()},
			}, nil
		}
		return nil, nil
	})
}

func (a *EmbeddedAgent) readFile(c *agent.Call_ReadFile) (*agent.Response, error) {
	if c == nil {
		return nil, missingField("read_file")
	}
	size, data, err := a.sandboxFiles().Read(c.Path, c.Offset, c.Length)
	return &agent.Response{Type: agent.Response_READ_FILE, ReadFile: &agent.Response_ReadFile{Size_: size, Data: data}}, err
}

func (a *EmbeddedAgent) listFiles(c *agent.Call_ListFiles) (*agent.Response, error) {
	if c == nil {
		return nil, missingField("list_files")
	}
	list, err := a.sandboxFiles().List(c.Path)
	return &agent.Response{Type: agent.Response_LIST_FILES, ListFiles: &agent.Response_ListFiles{FileInfos: list}}, err
}

func (a *EmbeddedAgent) sandboxFiles() files.SandboxFiles {
	return files.SandboxFiles{Frameworks: frameworksDir(a.cfg.WorkDir, a.info.GetID().GetValue())}
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
	for _, e := range a.completed {
		list.CompletedExecutors = append(list.CompletedExecutors, agent.Response_GetExecutors_Executor{ExecutorInfo: e.info})
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
	return agent.Response_GetContainers_Container{
		FrameworkID: e.framework.info.ID, ExecutorID: &e.info.ExecutorID, ExecutorName: new(e.info.GetName()), ContainerID: id,
		ContainerStatus: &mesos.ContainerStatus{ContainerID: &id, ExecutorPID: new(uint32(pid))},
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

// describeTasks lists all tasks, grouped by their phase. A task has terminated once
// its terminal status is stored, and is completed once that is acknowledged.
func (a *EmbeddedAgent) describeTasks() *agent.Response_GetTasks {
	list := &agent.Response_GetTasks{}
	for _, e := range append(a.sortedExecutors(), a.completed...) {
		for _, t := range e.tasks {
			d := events.NewTask(t.info, *e.framework.info.ID, &e.info.ExecutorID, t.stored)
			switch {
			case !a.isIncomplete(e, t):
				d.State = t.state.Enum()
				list.CompletedTasks = append(list.CompletedTasks, d)
			case events.IsTerminal(t.stored):
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
