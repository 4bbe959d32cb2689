package master

import (
	"errors"
	"fmt"
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
		id = m.newID("S", &m.nextID.agent)
	}
	info = *proto.Clone(&info).(*mesos.AgentInfo)
	info.ID = &mesos.AgentID{Value: id}
	now := &registeredAgent{
		id: *info.ID, info: info, total: resource.Sum(total), link: a, registered: time.Now(),
		held: map[executorKey]*resourceCharge{},
	}
	before := m.agents[id]
	if before != nil {
		before.calls.Close()
		m.rescindOffers(func(o *outstandingOffer) bool { return o.slot.Agent == id })
		now.registered, now.reregistered = before.registered, now.registered
	}
	m.agents[id] = now
	m.cfg.Log.WithFields(map[string]any{"agent": id, "hostname": info.Hostname}).Info("registered agent")
	m.reconcileAgent(now, running)
	delete(m.lost, id)
	m.continueDrain(now)
	m.allocateAgents(func(agent string) bool { return agent == id }) // other free resources have already been offered
	return now.id, nil
}

// reconcileAgent adopts the agent's running tasks and ends those that the agent
// does not have.
func (m *EmbeddedMaster) reconcileAgent(a *registeredAgent, running []link.RunningExecutor) {
	runs := map[[2]string]bool{}
	for _, r := range running {
		r = cloneRunning(r)
		id := r.Framework.GetID().GetValue()
		f := m.frameworkOf(r.Framework)
		if f == nil {
			gone := mesos.FrameworkID{Value: id}
			m.callAgent(a, func() { a.link.ShutdownFramework(gone) })
		}
		command := r.Executor.Type == mesos.ExecutorInfo_UNKNOWN && r.Executor.Command == nil
		key := executorKey{id, r.Executor.ExecutorID.Value}
		a.chargeExecutor(key, r.Executor, command)
		for _, t := range r.Tasks {
			a.chargeTask(id, r.Executor, command, t)
			runs[[2]string{id, t.TaskID.Value}] = true
			if f != nil {
				m.adoptTask(f, a, t)
			}
		}
	}
	for _, f := range sortedValues(m.frameworks) {
		for _, tasks := range []map[string]*masterTask{f.tasks, f.unreachable} {
			for _, t := range sortedValues(tasks) {
				if t.AgentID == a.id && !runs[[2]string{f.id(), t.id()}] {
					m.endTask(f, t, masterStatus(t.TaskID, a.id.Value, f.orLost(missingTaskState(t)),
						mesos.REASON_RECONCILIATION, "Task is unknown to the re-registered agent"))
				}
			}
		}
	}
}

func cloneRunning(r link.RunningExecutor) link.RunningExecutor {
	r.Framework = *proto.Clone(&r.Framework).(*mesos.FrameworkInfo)
	r.Executor = *proto.Clone(&r.Executor).(*mesos.ExecutorInfo)
	r.Tasks = slices.Clone(r.Tasks)
	for i := range r.Tasks {
		r.Tasks[i] = *proto.Clone(&r.Tasks[i]).(*mesos.TaskInfo)
	}
	return r
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

// adoptTask records a task that the agent still runs.
func (m *EmbeddedMaster) adoptTask(f *frameworkState, a *registeredAgent, info mesos.TaskInfo) {
	id := info.TaskID.Value
	if t := f.unreachable[id]; t != nil {
		delete(f.unreachable, id)
		t.State, t.StatusUpdateState, t.StatusUpdateUUID = mesos.TASK_RUNNING.Enum(), nil, nil
		f.tasks[id] = t
		s := masterStatus(info.TaskID, a.id.Value, mesos.TASK_RUNNING, mesos.REASON_AGENT_REREGISTERED, "Unreachable agent re-registered")
		t.updateStatus(s)
		f.sendEvent(events.NewUpdate(s))
		return
	}
	if f.tasks[id] == nil {
		f.tasks[id] = newTask(f, info, mesos.TASK_RUNNING)
	}
}

// missingTaskState returns the state of a task that its agent does not have.
// The agent may never have received the launch.
func missingTaskState(t *masterTask) mesos.TaskState {
	if t.GetState() == mesos.TASK_STAGING {
		return mesos.TASK_DROPPED
	}
	return mesos.TASK_GONE
}

// endTask ends a task with a status that the master generates.
func (m *EmbeddedMaster) endTask(f *frameworkState, t *masterTask, s mesos.TaskStatus) {
	s.ExecutorID = t.ExecutorID
	if !t.isTerminal() || f.unreachable[t.id()] != nil {
		t.updateStatus(s)
		f.sendEvent(events.NewUpdate(s))
	} else {
		f.sendEvent(events.NewUpdate(latestStatus(t)))
	}
	f.completeTask(t)
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
		m.lost[id.Value] = *timeInfo(time.Now())
		a.calls.Close()
		delete(m.agents, id.Value)
		for _, f := range sortedValues(m.frameworks) {
			for _, t := range sortedValues(f.tasks) {
				if t.AgentID == id {
					m.loseTask(f, t, a)
				}
			}
		}
		m.rescindOffers(func(o *outstandingOffer) bool { return o.slot.Agent == id.Value })
		m.rescindInverse(func(o *inverseOffer) bool { return o.agent == id.Value })
		for _, f := range m.frameworks {
			f.sendEvent(events.NewFailure(id, nil, nil))
		}
	})
}

func (m *EmbeddedMaster) loseTask(f *frameworkState, t *masterTask, a *registeredAgent) {
	if t.isTerminal() {
		m.endTask(f, t, mesos.TaskStatus{}) // keep the task's last state
		return
	}
	since := m.lost[a.id.Value]
	s := masterStatus(t.TaskID, a.id.Value, f.orLost(mesos.TASK_UNREACHABLE), mesos.REASON_AGENT_REMOVED,
		"Agent "+a.info.Hostname+" is unreachable")
	s.ExecutorID, s.UnreachableTime = t.ExecutorID, &since
	t.updateStatus(s)
	delete(f.tasks, t.id())
	f.unreachable[t.id()] = t
	f.sendEvent(events.NewUpdate(s))
}
