package agent

import (
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"

	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/updates"
)

func now() time.Time { return time.Now() }

// newStatus returns a status that the agent itself generates.
func (a *EmbeddedAgent) newStatus(task mesos.TaskID, state mesos.TaskState, reason mesos.TaskStatus_Reason, message string) mesos.TaskStatus {
	id := uuid.New()
	return a.completeStatus(mesos.TaskStatus{
		TaskID: task, State: &state, Reason: &reason, Message: &message, Source: mesos.SOURCE_AGENT.Enum(), UUID: id[:],
	})
}

// completeStatus sets the fields that all statuses of this agent share.
func (a *EmbeddedAgent) completeStatus(s mesos.TaskStatus) mesos.TaskStatus {
	s.AgentID = a.info.ID
	if s.Timestamp == nil {
		s.Timestamp = new(float64(now().UnixNano()) / 1e9)
	}
	return s
}

// agentStatus sets a task's status on the agent's own initiative.
func (a *EmbeddedAgent) agentStatus(e *executorState, t *taskState, state mesos.TaskState, reason mesos.TaskStatus_Reason, message string) {
	s := a.newStatus(t.info.TaskID, state, reason, message)
	s.ExecutorID = &e.info.ExecutorID
	if t.sent {
		a.containerStatus(e, &s)
	}
	t.state = s.GetState()
	a.storeStatus(*e.framework.info.ID, s)
}

// executorStatus records an executor's update and acknowledges it. It drops an
// update of a task that has already ended.
func (a *EmbeddedAgent) executorStatus(e *executorState, s mesos.TaskStatus) {
	acknowledge := func() {
		e.sendEvent(&executor.Event{Type: executor.Event_ACKNOWLEDGED, Acknowledged: &executor.Event_Acknowledged{TaskID: s.TaskID, UUID: s.UUID}})
	}
	s.Source, s.ExecutorID = mesos.SOURCE_EXECUTOR.Enum(), &e.info.ExecutorID
	s = a.completeStatus(s)
	a.containerStatus(e, &s)
	t := e.findTask(s.TaskID.Value)
	if t == nil {
		a.storeStatus(*e.framework.info.ID, s)
		acknowledge()
		return
	}
	if !t.isLive() {
		if events.IsTerminal(t.stored) {
			acknowledge()
		} // otherwise the update that is about to be stored is acknowledged
		return
	}
	t.state = s.GetState()
	a.cfg.Log.WithFields(e.logFields()).WithField("task", s.TaskID.Value).Info("task is " + s.GetState().String())
	if t.isLive() {
		a.storeStatus(*e.framework.info.ID, s)
		acknowledge()
		return
	}
	// A task that has ended releases its devices before its status is sent.
	a.updateGrant(e, func() {
		a.storeStatus(*e.framework.info.ID, s)
		acknowledge()
	})
}

// containerStatus adds the task's container to the status, unless the executor
// has set a nested container.
func (a *EmbeddedAgent) containerStatus(e *executorState, s *mesos.TaskStatus) {
	if s.ContainerStatus == nil {
		s.ContainerStatus = &mesos.ContainerStatus{}
	}
	cs := *s.ContainerStatus
	if cs.ContainerID == nil {
		cs.ContainerID = new(e.containerID())
	}
	if e.box != nil && cs.ExecutorPID == nil {
		cs.ExecutorPID = new(uint32(e.box.Pid()))
	}
	if len(cs.NetworkInfos) == 0 {
		cs.NetworkInfos = []mesos.NetworkInfo{{IPAddresses: []mesos.NetworkInfo_IPAddress{{IPAddress: new(a.cfg.hostIP())}}}}
	}
	s.ContainerStatus = &cs
}

// storeStatus stores a status and sends it unless an earlier one is
// outstanding.
func (a *EmbeddedAgent) storeStatus(framework mesos.FrameworkID, s mesos.TaskStatus) {
	if f := a.frameworks[framework.Value]; f != nil && f.ending {
		return
	}
	updates := a.streams.Add(now(), updates.TaskKey{Framework: framework.Value, Task: s.TaskID.Value}, s)
	if e := a.executorOf(framework.Value, s.TaskID.Value); e != nil {
		e.findTask(s.TaskID.Value).stored = s.GetState()
		a.saveExecutor(e)
	}
	a.forwardStatuses(updates)
}

// forwardStatuses sends statuses to the master. It then reports the exit of
// executors whose terminal statuses have all been sent.
func (a *EmbeddedAgent) forwardStatuses(updates []updates.PendingUpdate) {
	for _, u := range updates {
		a.cfg.Master.Status(*a.info.ID, mesos.FrameworkID{Value: u.Framework}, u.Status)
		if events.IsTerminal(u.Status.GetState()) {
			for _, x := range a.exits {
				delete(x.waits, u.TaskKey)
			}
		}
	}
	a.reportExits()
}

func (a *EmbeddedAgent) reportExits() {
	var waiting []*pendingExit
	for _, x := range a.exits {
		for key := range x.waits {
			if !a.streams.HasPending(key) {
				delete(x.waits, key) // removed with its framework
			}
		}
		if len(x.waits) > 0 {
			waiting = append(waiting, x)
			continue
		}
		a.cfg.Master.ExecutorExited(*a.info.ID, x.framework, x.executor, x.status)
	}
	a.exits = waiting
}
