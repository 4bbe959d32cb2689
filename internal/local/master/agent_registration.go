package master

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/resource"
)

// Register adds or re-registers an agent and offers its resources.
func (m *EmbeddedMaster) Register(info mesos.AgentInfo, total []mesos.Resource, running []link.RunningExecutor, a link.AgentLink) (mesos.AgentID, error) {
	if a == nil {
		return mesos.AgentID{}, errors.New("register agent: it has no link.Agent")
	}
	if err := resource.Validate(total); err != nil {
		return mesos.AgentID{}, fmt.Errorf("register agent %s: %w", info.Hostname, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return mesos.AgentID{}, fmt.Errorf("register agent %s: %w", info.Hostname, errStopped)
	}
	id := info.GetID().GetValue()
	if id == "" {
		m.removeReplaced(info)
		id = m.newID("S", &m.nextID.agent)
	}
	info = *proto.Clone(&info).(*mesos.AgentInfo)
	info.ID = &mesos.AgentID{Value: id}
	now := &registeredAgent{
		id: *info.ID, info: info, total: resource.Sum(total), link: a, calls: &link.CallQueue{}, registered: time.Now(),
		held: map[executorKey]*resourceCharge{}, killed: map[taskKey]bool{},
	}
	before, lost := m.agents[id], m.lost[id]
	m.agents[id] = now
	delete(m.lost, id)
	running = cloneRunning(running)
	switch {
	case before != nil:
		m.rescindOffers(func(o *outstandingOffer) bool { return o.slot.Agent == id })
		now.registered, now.reregistered = before.registered, now.registered
		now.held, now.killed = before.held, before.killed
		now.keepCalls(before.link, before.calls)
		m.reconcileKnownAgent(now, running)
	case lost != nil:
		now.keepCalls(lost.link, lost.calls)
		m.readmitAgent(now, running, true)
	default:
		m.readmitAgent(now, running, false)
	}
	m.cfg.Log.WithFields(map[string]any{"agent": id, "hostname": info.Hostname}).Info("registered agent")
	m.continueDrain(now)
	m.allocateAgents(func(agent string) bool { return agent == id }) // other free resources have already been offered
	return now.id, nil
}

// keepCalls keeps the calls that were queued before the agent registered again,
// if it is the same process. Those to another process arrive there or nowhere.
func (a *registeredAgent) keepCalls(to link.AgentLink, calls *link.CallQueue) {
	if to == a.link {
		a.calls = calls
	}
}

// removeReplaced removes an agent at the address of one that registers without an
// id, which has lost its work directory. Containers of the removed agent may
// still run.
func (m *EmbeddedMaster) removeReplaced(by mesos.AgentInfo) {
	for _, a := range sortedValues(m.agents) {
		if a.info.Hostname != by.Hostname || a.info.GetPort() != by.GetPort() {
			continue
		}
		m.cfg.Log.WithField("agent", a.id.Value).Info("removed agent: another one has registered at its address")
		m.removeAgent(a, func(f *frameworkState, t *masterTask) {
			s := masterStatus(t.TaskID, a.id.Value, mesos.TASK_LOST, mesos.REASON_AGENT_REMOVED,
				"Agent "+a.info.Hostname+" is removed: another one has registered at its address")
			s.ExecutorID = t.ExecutorID
			t.updateStatus(s)
			f.sendEvent(events.NewUpdate(s))
			f.completeTask(t)
		})
	}
}

// reconcileKnownAgent compares the list of a registered agent that registers
// again with the master's tasks. The agent may have received launches since it
// wrote the list: it is asked about tasks that it has not listed, while its
// executors that are not in the list are no longer charged. Tasks that only the
// agent knows remain unknown.
func (m *EmbeddedMaster) reconcileKnownAgent(a *registeredAgent, running []link.RunningExecutor) {
	executors, tasks := map[executorKey]bool{}, map[taskKey]bool{}
	for _, r := range running {
		id := r.Framework.GetID().GetValue()
		executors[executorKey{id, r.Executor.ExecutorID.Value}] = !r.Ended
		if m.frameworkOf(r.Framework) == nil {
			m.shutdownRemoved(a, id)
		}
		for _, t := range r.Tasks {
			key := taskKey{id, t.TaskID.Value}
			tasks[key] = true
			if a.killed[key] && !events.IsTerminal(r.State(t.TaskID)) {
				framework, task := mesos.FrameworkID{Value: id}, t.TaskID
				defer m.callAgent(a, func() { a.link.Kill(framework, task, nil) })
			}
		}
	}
	for _, f := range sortedValues(m.frameworks) {
		var missing []mesos.TaskID
		for _, t := range sortedValues(f.tasks) {
			if t.AgentID == a.id && !tasks[taskKey{f.id(), t.id()}] {
				missing = append(missing, t.TaskID)
			}
		}
		if len(missing) > 0 {
			framework := *proto.Clone(&f.info).(*mesos.FrameworkInfo)
			m.callAgent(a, func() { a.link.ReconcileTasks(framework, missing) })
		}
	}
	a.removeUnlisted(executors)
}

// readmitAgent adopts the executors and tasks of an agent that is not registered.
// Frameworks receive the states of the tasks of an agent that was lost; of its
// tasks that it does not list they receive nothing.
func (m *EmbeddedMaster) readmitAgent(a *registeredAgent, running []link.RunningExecutor, lost bool) {
	for _, r := range running {
		id := r.Framework.GetID().GetValue()
		f := m.frameworkOf(r.Framework)
		if f == nil {
			m.shutdownRemoved(a, id)
		}
		command := r.Executor.Type == mesos.ExecutorInfo_UNKNOWN && r.Executor.Command == nil
		if !r.Ended {
			a.chargeExecutor(executorKey{id, r.Executor.ExecutorID.Value}, r.Executor, command)
		}
		for _, t := range r.Tasks {
			state := r.State(t.TaskID)
			if !events.IsTerminal(state) {
				a.chargeTask(id, r.Executor, command, t)
			}
			if f != nil {
				m.adoptTask(f, a, t, state, lost)
			}
		}
	}
	for _, f := range m.frameworks {
		maps.DeleteFunc(f.unreachable, func(_ string, t *masterTask) bool { return t.AgentID == a.id })
	}
}

// shutdownRemoved ends the executors of a removed framework.
func (m *EmbeddedMaster) shutdownRemoved(a *registeredAgent, framework string) {
	id := mesos.FrameworkID{Value: framework}
	m.callAgent(a, func() { a.link.ShutdownFramework(id) })
}

func cloneRunning(running []link.RunningExecutor) []link.RunningExecutor {
	running = slices.Clone(running)
	for n := range running {
		r := &running[n]
		r.Framework = *proto.Clone(&r.Framework).(*mesos.FrameworkInfo)
		r.Executor = *proto.Clone(&r.Executor).(*mesos.ExecutorInfo)
		r.Tasks = slices.Clone(r.Tasks)
		for i := range r.Tasks {
			r.Tasks[i] = *proto.Clone(&r.Tasks[i]).(*mesos.TaskInfo)
		}
	}
	return running
}

// frameworkOf returns the framework, or creates one that has not subscribed
// yet. It returns nil for a removed framework.
func (m *EmbeddedMaster) frameworkOf(info mesos.FrameworkInfo) *frameworkState {
	id := info.GetID().GetValue()
	if f := m.frameworks[id]; f != nil {
		return f
	}
	if id == "" || slices.ContainsFunc(m.completed, func(f *frameworkState) bool { return f.id() == id }) {
		return nil
	}
	f := newFramework(info)
	f.recovered = true
	m.frameworks[id] = f
	return f
}

// adoptTask records a task that the agent lists, and sends its state if the agent
// was lost.
func (m *EmbeddedMaster) adoptTask(f *frameworkState, a *registeredAgent, info mesos.TaskInfo, state mesos.TaskState, lost bool) {
	id := info.TaskID.Value
	t := f.unreachable[id]
	if t == nil {
		t = f.tasks[id]
	}
	if t == nil {
		t = newTask(f, info, state)
	}
	f.tasks[id] = t
	delete(f.unreachable, id)
	f.completed = slices.DeleteFunc(f.completed, func(c *masterTask) bool { return c.id() == id })
	if !lost {
		return
	}
	t.State, t.StatusUpdateState, t.StatusUpdateUUID = state.Enum(), nil, nil
	s := masterStatus(info.TaskID, a.id.Value, state, mesos.REASON_AGENT_REREGISTERED, "Unreachable agent re-registered")
	s.ExecutorID = t.ExecutorID
	t.updateStatus(s)
	f.sendEvent(events.NewUpdate(s))
}

// UpdateTotal replaces the agent's resources.
func (m *EmbeddedMaster) UpdateTotal(id mesos.AgentID, total []mesos.Resource) {
	m.withLock(func() {
		a := m.agents[id.Value]
		log := m.cfg.Log.WithField("agent", id.Value)
		if err := resource.Validate(total); err != nil || a == nil {
			log.WithError(err).Warn("ignored new total: the agent is not registered, or the total is not valid")
			return
		}
		a.total = resource.Sum(total)
		log.WithField("total", mesos.Resources(a.total).String()).Info("agent's resources changed")
		m.rescindOffers(func(o *outstandingOffer) bool { return o.slot.Agent == id.Value })
		m.allocateAll()
	})
}

// Lost removes the agent. Its tasks are unreachable until it returns.
func (m *EmbeddedMaster) Lost(id mesos.AgentID) {
	m.withLock(func() {
		a := m.agents[id.Value]
		if a == nil {
			return
		}
		m.cfg.Log.WithField("agent", id.Value).Info("lost agent")
		m.lost[id.Value] = &lostAgent{since: *timeInfo(time.Now()), link: a.link, calls: a.calls}
		m.removeAgent(a, func(f *frameworkState, t *masterTask) { m.loseTask(f, t, a) })
	})
}

// removeAgent removes an agent that may still run, and its tasks by end.
func (m *EmbeddedMaster) removeAgent(a *registeredAgent, end func(*frameworkState, *masterTask)) {
	delete(m.agents, a.id.Value)
	for _, f := range sortedValues(m.frameworks) {
		for _, t := range sortedValues(f.tasks) {
			if t.AgentID == a.id {
				end(f, t)
			}
		}
	}
	m.rescindOffers(func(o *outstandingOffer) bool { return o.slot.Agent == a.id.Value })
	m.rescindInverse(func(o *inverseOffer) bool { return o.agent == a.id.Value })
	for _, f := range m.frameworks {
		f.sendEvent(events.NewFailure(a.id, nil, nil))
	}
}

// loseTask makes a task unreachable, also one whose terminal status is not
// acknowledged. The agent sends that again when it returns.
func (m *EmbeddedMaster) loseTask(f *frameworkState, t *masterTask, a *registeredAgent) {
	since := m.lost[a.id.Value].since
	s := masterStatus(t.TaskID, a.id.Value, f.orLost(mesos.TASK_UNREACHABLE), mesos.REASON_AGENT_REMOVED,
		"Agent "+a.info.Hostname+" is unreachable")
	s.ExecutorID, s.UnreachableTime = t.ExecutorID, &since
	t.updateStatus(s)
	delete(f.tasks, t.id())
	f.unreachable[t.id()] = t
	f.sendEvent(events.NewUpdate(s))
}
