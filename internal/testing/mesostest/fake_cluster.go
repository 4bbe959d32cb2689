package mesostest

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/resource"
)

// FakeCluster is a FakeMaster with one agent, "agent-1", that has named V100 GPUs. It
// offers all free resources to its framework's first role when a framework subscribes or
// revives, reports each launched task as RUNNING, and ends tasks when the test calls EndTask.
// The agent lists its tasks and containers.
type FakeCluster struct {
	*FakeMaster
	mu        sync.Mutex
	all       []string // device ids
	free      []string // device ids
	tasks     map[string]mesos.TaskInfo
	ended     map[string]mesos.TaskInfo
	forgotten map[string]bool // running tasks that the master does not know
	state     map[string]mesos.TaskState
	offer     int
	role      string // the framework's first role
	framework string // the framework's id
}

// NewCluster starts a FakeCluster with that many GPUs.
func NewCluster(t testing.TB, gpus int, options ...MasterOption) *FakeCluster {
	c := &FakeCluster{FakeMaster: NewMaster(t, options...), tasks: map[string]mesos.TaskInfo{}, ended: map[string]mesos.TaskInfo{},
		forgotten: map[string]bool{}, state: map[string]mesos.TaskState{}}
	for i := range gpus {
		c.free = append(c.free, fmt.Sprintf("GPU-%d", i))
	}
	c.all = slices.Clone(c.free)
	_, address, _ := strings.Cut(c.URL(), "://")
	pid := "slave(1)@" + address
	c.Agents = master.Response_GetAgents{Agents: []master.Response_GetAgents_Agent{{
		AgentInfo: mesos.AgentInfo{ID: &mesos.AgentID{Value: "agent-1"}, Hostname: "host-1", Attributes: agentAttributes()},
		Active:    true, PID: &pid, TotalResources: agentResources(c.free, "*"),
	}}}
	c.OnCall, c.OnAgentCall = c.handleCall, c.answerAgentCall
	return c
}

// WithholdDevices removes these devices from the agent in the master's list and adds the
// agent's records of them. It sends no event.
func (c *FakeCluster) WithholdDevices(devices ...gpu.WithheldDevice) {
	set, role := resource.NewSet(gpu.WithheldResource), gpu.WithheldRole
	set.ProviderID = &mesos.ResourceProviderID{Value: "provider-1"}
	set.Reservations = []mesos.Resource_ReservationInfo{{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: &role}}
	left := slices.Clone(c.all)
	for _, d := range devices {
		set.Set.Item = append(set.Set.Item, d.SetItem())
		left = slices.DeleteFunc(left, func(id string) bool { return id == d.UUID })
	}
	c.FakeMaster.mu.Lock()
	defer c.FakeMaster.mu.Unlock()
	agent := c.Agents.Agents[0]
	if agent.TotalResources = agentResources(left, "*"); len(devices) > 0 {
		agent.TotalResources = append(agent.TotalResources, set)
	}
	c.Agents.Agents = []master.Response_GetAgents_Agent{agent}
}

func agentAttributes() []mesos.Attribute {
	return []mesos.Attribute{{Name: "gpu_type", Type: mesos.TEXT, Text: &mesos.Value_Text{Value: "V100"}}}
}

// agentResources returns the resources of the agent with these devices, allocated to role.
func agentResources(devices []string, role string) []mesos.Resource {
	gpus, ids := resource.NewScalar("gpus", float64(len(devices))), resource.NewSet("gpu_ids", devices...)
	for _, r := range []*mesos.Resource{&gpus, &ids} {
		r.ProviderID = &mesos.ResourceProviderID{Value: "provider-1"}
	}
	all := []mesos.Resource{resource.NewScalar("cpus", 64), resource.NewScalar("mem", 65536), resource.NewScalar("disk", 10000), gpus, ids}
	return resource.Allocate(all, role)
}

func (c *FakeCluster) handleCall(call *scheduler.Call) {
	switch call.GetType() {
	case scheduler.Call_SUBSCRIBE:
		c.mu.Lock()
		c.role = call.GetSubscribe().GetFrameworkInfo().Roles[0]
		c.framework = cmp.Or(call.GetFrameworkID().GetValue(), defaultFramework)
		c.mu.Unlock()
		c.SendOffer()
	case scheduler.Call_REVIVE:
		c.SendOffer()
	case scheduler.Call_ACCEPT:
		c.launchTasks(call.GetAccept())
	case scheduler.Call_KILL:
		c.killTask(call.GetKill())
	case scheduler.Call_SHUTDOWN:
		c.shutdownExecutor(call.GetShutdown().GetExecutorID().Value)
	case scheduler.Call_RECONCILE:
		c.answerReconcile(call.GetReconcile().GetTasks())
	}
}

// SendOffer offers all free resources.
func (c *FakeCluster) SendOffer() {
	c.mu.Lock()
	c.offer++
	role := c.role
	o := mesos.Offer{
		ID: mesos.OfferID{Value: fmt.Sprintf("offer-%d", c.offer)}, AgentID: mesos.AgentID{Value: "agent-1"},
		Hostname: "host-1", Resources: agentResources(c.free, role), Attributes: agentAttributes(), URL: c.agentMesosURL(),
		AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role},
	}
	c.mu.Unlock()
	c.SendEvents(events.NewOffers(o))
}

// agentMesosURL returns the agent's URL as Mesos writes it into offers: always http, with
// a host name, and an IP address without brackets.
func (c *FakeCluster) agentMesosURL() *mesos.URL {
	u, err := url.Parse(c.URL())
	if err != nil {
		panic(err) // the URL is the fake's own
	}
	port, err := strconv.ParseInt(u.Port(), 10, 32)
	if err != nil {
		panic(err)
	}
	host, path := u.Hostname(), "/slave(1)"
	return &mesos.URL{Scheme: "http", Address: mesos.Address{Hostname: &host, IP: &host, Port: int32(port)}, Path: &path}
}

func (c *FakeCluster) launchTasks(a *scheduler.Call_Accept) {
	var started []string
	c.mu.Lock()
	for _, op := range a.GetOperations() {
		for _, task := range op.GetLaunch().GetTaskInfos() {
			id := task.TaskID.Value
			c.tasks[id] = task
			c.free = slices.DeleteFunc(c.free, func(d string) bool { return slices.Contains(taskDevices(task), d) })
			started = append(started, id)
		}
	}
	c.mu.Unlock()
	for _, id := range started {
		c.SendUpdate(id, mesos.TASK_RUNNING, "", "")
	}
}

// executorID returns the id of a task's executor. That of a command task has the task's id.
func executorID(task mesos.TaskInfo) *mesos.ExecutorID {
	if task.Executor == nil {
		return &mesos.ExecutorID{Value: task.TaskID.Value}
	}
	return &task.Executor.ExecutorID
}

func taskDevices(task mesos.TaskInfo) []string {
	for _, r := range task.Resources {
		if r.Name == "gpu_ids" {
			return r.GetSet().GetItem()
		}
	}
	return nil
}

const killedMessage = "killed by signal 15 (SIGTERM)"

// killTask kills a task that the master knows. For another one it answers as a
// reconciliation, also if the agent runs it.
func (c *FakeCluster) killTask(call *scheduler.Call_Kill) {
	id := call.GetTaskID().Value
	c.mu.Lock()
	_, known := c.tasks[id]
	known = known && !c.forgotten[id]
	c.mu.Unlock()
	if !known {
		c.answerReconcile([]scheduler.Call_Reconcile_Task{{TaskID: call.TaskID, AgentID: call.AgentID}})
		return
	}
	c.EndTask(id, mesos.TASK_KILLED, killedMessage, "")
}

// shutdownExecutor ends the task of an executor, also if the master does not know it.
func (c *FakeCluster) shutdownExecutor(executor string) {
	for _, id := range c.RunningTasks() {
		if task, ok := c.FindTask(id); ok && executorID(task).Value == executor {
			c.EndTask(id, mesos.TASK_KILLED, killedMessage, "")
		}
	}
}

// ForgetTask makes the master forget a running task, as if it had been launched while the
// agent was registering again: the agent runs it, and the master offers its devices.
func (c *FakeCluster) ForgetTask(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if task, ok := c.tasks[id]; ok && !c.forgotten[id] {
		c.forgotten[id] = true
		c.free = append(c.free, taskDevices(task)...)
	}
}

// answerReconcile sends the state of the given tasks, or of all tasks if there are none, as
// the master knows it.
func (c *FakeCluster) answerReconcile(asked []scheduler.Call_Reconcile_Task) {
	reason := mesos.REASON_RECONCILIATION
	answer := func(id string) {
		c.mu.Lock()
		state, ok := c.state[id]
		if !ok || c.forgotten[id] {
			state = mesos.TASK_GONE
		}
		c.mu.Unlock()
		c.sendStatus(mesos.TaskStatus{
			TaskID: mesos.TaskID{Value: id}, State: &state, Source: mesos.SOURCE_MASTER.Enum(), Reason: &reason, AgentID: &mesos.AgentID{Value: "agent-1"},
		})
	}
	for _, t := range asked {
		answer(t.TaskID.Value)
	}
	if len(asked) > 0 {
		return
	}
	for _, id := range c.RunningTasks() {
		c.mu.Lock()
		known := !c.forgotten[id]
		c.mu.Unlock()
		if known {
			answer(id)
		}
	}
}

// answerAgentCall answers as the agent, which knows what it runs and what has ended.
func (c *FakeCluster) answerAgentCall(call *agent.Call) *agent.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	framework := mesos.FrameworkID{Value: c.framework}
	switch call.GetType() {
	case agent.Call_GET_AGENT:
		info := &mesos.AgentInfo{ID: &mesos.AgentID{Value: "agent-1"}, Hostname: "host-1"}
		return &agent.Response{Type: agent.Response_GET_AGENT, GetAgent: &agent.Response_GetAgent{AgentInfo: info}}
	case agent.Call_GET_TASKS:
		list := func(tasks map[string]mesos.TaskInfo) (all []mesos.Task) {
			for _, id := range slices.Sorted(maps.Keys(tasks)) {
				all = append(all, events.NewTask(tasks[id], framework, executorID(tasks[id]), c.state[id]))
			}
			return all
		}
		return &agent.Response{Type: agent.Response_GET_TASKS, GetTasks: &agent.Response_GetTasks{LaunchedTasks: list(c.tasks), CompletedTasks: list(c.ended)}}
	case agent.Call_GET_CONTAINERS:
		containers := &agent.Response_GetContainers{}
		for _, id := range slices.Sorted(maps.Keys(c.tasks)) {
			containers.Containers = append(containers.Containers, agent.Response_GetContainers_Container{
				FrameworkID: &framework, ExecutorID: executorID(c.tasks[id]), ContainerID: mesos.ContainerID{Value: "container-" + id},
			})
		}
		return &agent.Response{Type: agent.Response_GET_CONTAINERS, GetContainers: containers}
	}
	return nil
}

// SendUpdate sends an executor's status update with a UUID, which the framework must
// acknowledge.
func (c *FakeCluster) SendUpdate(id string, state mesos.TaskState, message, exit string) {
	c.mu.Lock()
	c.state[id] = state
	c.mu.Unlock()
	u := uuid.New()
	status := mesos.TaskStatus{
		TaskID: mesos.TaskID{Value: id}, State: &state, Source: mesos.SOURCE_EXECUTOR.Enum(), UUID: u[:], AgentID: &mesos.AgentID{Value: "agent-1"},
	}
	if message != "" {
		status.Message = &message
	}
	if exit != "" {
		status.Labels = &mesos.Labels{Labels: []mesos.Label{{Key: "mesos-gpu.exit_code", Value: &exit}}}
	}
	c.sendStatus(status)
}

func (c *FakeCluster) sendStatus(status mesos.TaskStatus) {
	c.SendEvents(events.NewUpdate(status))
}

// EndTask ends a task and frees its devices.
func (c *FakeCluster) EndTask(id string, state mesos.TaskState, message, exit string) {
	c.mu.Lock()
	if task, ok := c.tasks[id]; ok {
		if !c.forgotten[id] {
			c.free = append(c.free, taskDevices(task)...)
		}
		delete(c.tasks, id)
		c.ended[id] = task
	}
	c.mu.Unlock()
	c.SendUpdate(id, state, message, exit)
}

// RunningTasks returns the ids of the running tasks, sorted.
func (c *FakeCluster) RunningTasks() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for id := range c.tasks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// FindTask returns the task that was launched with that id; false if no such task exists.
func (c *FakeCluster) FindTask(id string) (mesos.TaskInfo, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	task, ok := c.tasks[id]
	return task, ok
}
