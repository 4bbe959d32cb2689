package master

import (
	"net/http"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"

	"mesos-gpu/internal/mesosapi"
)

// serveWatch streams events to an operator, starting with the current state.
func (m *EmbeddedMaster) serveWatch(w http.ResponseWriter, r *http.Request) {
	stream, err := mesosapi.NewStream(r)
	if err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	open := false
	m.withLock(func() {
		open = true
		m.watchers[stream] = struct{}{}
		stream.Send(&operator.Event{Type: operator.Event_SUBSCRIBED, Subscribed: &operator.Event_Subscribed{
			GetState:                 m.describeState(),
			HeartbeatIntervalSeconds: secondsOf(m.cfg.HeartbeatInterval),
		}})
		stream.Send(watchHeartbeat())
	})
	if !open {
		mesosapi.WriteError(w, errStopped)
		return
	}
	err = stream.Serve(r.Context(), w, "")
	m.cfg.Log.WithError(err).Debug("operator's event stream ended")
	m.withLock(func() { delete(m.watchers, stream) })
}

// publishEvent sends an event to all subscribed operators.
func (m *EmbeddedMaster) publishEvent(e *operator.Event) {
	for w := range m.watchers {
		w.Send(e)
	}
}

func watchHeartbeat() *operator.Event { return &operator.Event{Type: operator.Event_HEARTBEAT} }

func taskAdded(t mesos.Task) *operator.Event {
	return &operator.Event{Type: operator.Event_TASK_ADDED, TaskAdded: &operator.Event_TaskAdded{Task: t}}
}

func taskUpdated(framework mesos.FrameworkID, s mesos.TaskStatus, state mesos.TaskState) *operator.Event {
	s.Data = nil
	return &operator.Event{
		Type:        operator.Event_TASK_UPDATED,
		TaskUpdated: &operator.Event_TaskUpdated{FrameworkID: framework, Status: s, State: &state},
	}
}

func agentAdded(a operator.Response_GetAgents_Agent) *operator.Event {
	return &operator.Event{Type: operator.Event_AGENT_ADDED, AgentAdded: &operator.Event_AgentAdded{Agent: a}}
}

func agentRemoved(id mesos.AgentID) *operator.Event {
	return &operator.Event{Type: operator.Event_AGENT_REMOVED, AgentRemoved: &operator.Event_AgentRemoved{AgentID: id}}
}

func frameworkAdded(f operator.Response_GetFrameworks_Framework) *operator.Event {
	return &operator.Event{Type: operator.Event_FRAMEWORK_ADDED, FrameworkAdded: &operator.Event_FrameworkAdded{Framework: f}}
}

func frameworkUpdated(f operator.Response_GetFrameworks_Framework) *operator.Event {
	return &operator.Event{Type: operator.Event_FRAMEWORK_UPDATED, FrameworkUpdated: &operator.Event_FrameworkUpdated{Framework: f}}
}

func frameworkRemoved(info mesos.FrameworkInfo) *operator.Event {
	return &operator.Event{
		Type:             operator.Event_FRAMEWORK_REMOVED,
		FrameworkRemoved: &operator.Event_FrameworkRemoved{FrameworkInfo: info},
	}
}
