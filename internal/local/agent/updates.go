package agent

import (
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"

	"mesos-gpu/internal/local/agent/status"
	"mesos-gpu/internal/local/link"
)

func now() time.Time { return time.Now() }

// status is one of the agent's own making.
func (a *Agent) status(task mesos.TaskID, state mesos.TaskState, reason mesos.TaskStatus_Reason, message string) mesos.TaskStatus {
	id := uuid.New()
	source := mesos.SOURCE_AGENT
	return a.complete(mesos.TaskStatus{
		TaskID: task, State: &state, Reason: &reason, Message: &message, Source: &source, UUID: id[:],
	})
}

// complete fills in what every status of this agent has.
func (a *Agent) complete(s mesos.TaskStatus) mesos.TaskStatus {
	s.AgentID = a.info.ID
	if s.Timestamp == nil {
		seconds := float64(now().UnixNano()) / 1e9
		s.Timestamp = &seconds
	}
	return s
}

// agentStatus gives a task a status of the agent's own.
func (a *Agent) agentStatus(e *executorRun, t *task, state mesos.TaskState, reason mesos.TaskStatus_Reason, message string) {
	s := a.status(t.info.TaskID, state, reason, message)
	s.ExecutorID = &e.info.ExecutorID
	if t.sent {
		a.containerStatus(e, &s)
	}
	t.record(s)
	a.add(*e.framework.info.ID, s)
}

// executorStatus takes an executor's update and acknowledges it. One for a
// task that has ended before is of no use to anybody.
func (a *Agent) executorStatus(e *executorRun, s mesos.TaskStatus) {
	defer e.send(&executor.Event{Type: executor.Event_ACKNOWLEDGED, Acknowledged: &executor.Event_Acknowledged{TaskID: s.TaskID, UUID: s.UUID}})
	source := mesos.SOURCE_EXECUTOR
	s.Source, s.ExecutorID = &source, &e.info.ExecutorID
	s = a.complete(s)
	a.containerStatus(e, &s)
	t := e.task(s.TaskID.Value)
	if t == nil {
		a.add(*e.framework.info.ID, s)
		return
	}
	if !t.live() {
		return
	}
	t.record(s)
	a.cfg.Log.WithFields(e.fields()).WithField("task", s.TaskID.Value).Info("task is " + s.GetState().String())
	if t.live() {
		a.add(*e.framework.info.ID, s)
		return
	}
	// A task that has ended gives its devices back before anybody is told.
	a.resize(e, func() { a.add(*e.framework.info.ID, s) })
}

// containerStatus adds where the task runs. An executor that named a nested
// container keeps it.
func (a *Agent) containerStatus(e *executorRun, s *mesos.TaskStatus) {
	if s.ContainerStatus == nil {
		s.ContainerStatus = &mesos.ContainerStatus{}
	}
	cs := *s.ContainerStatus
	if cs.ContainerID == nil {
		id := e.containerID()
		cs.ContainerID = &id
	}
	if e.box != nil && cs.ExecutorPID == nil {
		pid := uint32(e.box.Pid())
		cs.ExecutorPID = &pid
	}
	if len(cs.NetworkInfos) == 0 {
		host := a.cfg.host()
		cs.NetworkInfos = []mesos.NetworkInfo{{IPAddresses: []mesos.NetworkInfo_IPAddress{{IPAddress: &host}}}}
	}
	s.ContainerStatus = &cs
}

// add stores a status and sends it unless others wait before it.
func (a *Agent) add(framework mesos.FrameworkID, s mesos.TaskStatus) {
	if f := a.frameworks[framework.Value]; f != nil && f.ending {
		return
	}
	a.forward(a.streams.Add(now(), status.Key{Framework: framework.Value, Task: s.TaskID.Value}, s))
}

// forward sends statuses to the master. Executors whose tasks' ends have all
// been sent so are then reported as gone.
func (a *Agent) forward(updates []status.Update) {
	for _, u := range updates {
		a.cfg.Master.Status(*a.info.ID, mesos.FrameworkID{Value: u.Framework}, u.Status)
		if link.Terminal(u.Status.GetState()) {
			for _, x := range a.exits {
				delete(x.waits, u.Key)
			}
		}
	}
	a.reportExits()
}

func (a *Agent) reportExits() {
	var waiting []*exit
	for _, x := range a.exits {
		for key := range x.waits {
			if !a.streams.Pending(key) {
				delete(x.waits, key) // forgotten with its framework
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
