package master

import (
	"mesos-gpu/internal/minimesos/events"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Status records and forwards a task's status. That of a task that the master
// does not know is forwarded too.
func (m *EmbeddedMaster) Status(id mesos.AgentID, framework mesos.FrameworkID, status mesos.TaskStatus) {
	m.withLock(func() { m.recordStatus(id, framework, status) })
}

func (m *EmbeddedMaster) recordStatus(id mesos.AgentID, framework mesos.FrameworkID, s mesos.TaskStatus) {
	a, f := m.agents[id.Value], m.frameworks[framework.Value]
	log := m.cfg.Log.WithFields(map[string]any{"agent": id.Value, "framework": framework.Value, "task": s.TaskID.Value})
	if a == nil || s.State == nil {
		log.Warn("ignored status: the agent is not registered, or the status has no state")
		return
	}
	if events.IsTerminal(*s.State) {
		a.releaseTask(framework.Value, s.TaskID.Value)
	}
	if f == nil {
		return // the framework is removed: drop the status
	}
	if s.AgentID == nil {
		s.AgentID = &id
	}
	s = m.markDrained(id, s)
	t := f.tasks[s.TaskID.Value]
	if t != nil && t.AgentID == id && !t.isStale(s) {
		if f.stream != nil {
			t.StatusUpdateState, t.StatusUpdateUUID = s.State, s.UUID
		}
		t.updateStatus(s)
		log.WithField("state", s.State.String()).Debug("task status")
	}
	f.sendEvent(events.NewUpdate(s))
}

// ExecutorExited releases the executor's resources. The agent has already sent
// terminal statuses for its tasks. Any remaining tasks were launched in the
// meantime; the agent restarts the executor for them.
func (m *EmbeddedMaster) ExecutorExited(id mesos.AgentID, framework mesos.FrameworkID, executor mesos.ExecutorID, status int32) {
	m.withLock(func() {
		a := m.agents[id.Value]
		if a == nil {
			return
		}
		f, key := m.frameworks[framework.Value], executorKey{framework.Value, executor.Value}
		_, known := a.findExecutor(framework.Value, executor.Value)
		if c := a.held[key]; f == nil || c == nil || len(c.tasks) == 0 {
			a.releaseExecutor(key)
		}
		// As in Mesos, the exit of an executor that the agent supplied is not
		// reported.
		if f != nil && known {
			f.sendEvent(events.NewFailure(id, &executor, &status))
		}
	})
}
