package agent

import (
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"

	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/updates"
)

// masterCalls implements link.AgentLink for the master. Its methods only queue
// work, so the master may call them at any time.
type masterCalls struct{ a *EmbeddedAgent }

// Run implements link.AgentLink.
func (m masterCalls) Run(framework mesos.FrameworkInfo, ex mesos.ExecutorInfo, task mesos.TaskInfo) {
	m.a.loop.post(func() { m.a.launchTask(framework, ex, task) })
}

// Kill implements link.AgentLink.
func (m masterCalls) Kill(framework mesos.FrameworkID, task mesos.TaskID, policy *mesos.KillPolicy) {
	m.a.loop.post(func() { m.a.killTask(framework, task, policy) })
}

// Acknowledge implements link.AgentLink.
func (m masterCalls) Acknowledge(framework mesos.FrameworkID, task mesos.TaskID, uuid []byte) {
	m.a.loop.post(func() { m.a.acknowledgeStatus(framework, task, uuid) })
}

// ReconcileTasks implements link.AgentLink.
func (m masterCalls) ReconcileTasks(framework mesos.FrameworkInfo, tasks []mesos.TaskID) {
	m.a.loop.post(func() { m.a.reconcileTasks(framework, tasks) })
}

// Message implements link.AgentLink.
func (m masterCalls) Message(framework mesos.FrameworkID, id mesos.ExecutorID, data []byte) {
	m.a.loop.post(func() {
		if e := m.a.findExecutor(framework.Value, id.Value); e != nil && e.phase == running {
			e.sendEvent(&executor.Event{Type: executor.Event_MESSAGE, Message: &executor.Event_Message{Data: data}})
		}
	})
}

// ShutdownExecutor implements link.AgentLink.
func (m masterCalls) ShutdownExecutor(framework mesos.FrameworkID, id mesos.ExecutorID) {
	m.a.loop.post(func() {
		if e := m.a.findExecutor(framework.Value, id.Value); e != nil {
			m.a.shutdownExecutor(e, termination{})
		}
	})
}

// ShutdownFramework implements link.AgentLink.
func (m masterCalls) ShutdownFramework(id mesos.FrameworkID) {
	m.a.loop.post(func() { m.a.shutdownFramework(id.Value) })
}

// shutdownFramework ends a framework's executors. Pending statuses of its tasks
// are dropped, because no scheduler acknowledges them.
func (a *EmbeddedAgent) shutdownFramework(id string) {
	a.streams.ForgetFramework(id)
	a.reportExits()
	f := a.frameworks[id]
	if f == nil {
		return
	}
	f.ending = true
	for _, e := range f.executors {
		a.shutdownExecutor(e, termination{})
	}
}

func (a *EmbeddedAgent) findExecutor(framework, id string) *executorState {
	f := a.frameworks[framework]
	if f == nil {
		return nil
	}
	return f.executors[id]
}

// executorOfTask returns the executor that has a live task with that id.
func (f *frameworkState) executorOfTask(id string) (*executorState, *taskState) {
	for _, e := range f.executors {
		if t := e.findTask(id); t != nil && t.isLive() {
			return e, t
		}
	}
	return nil, nil
}

// killTask forwards a kill to the task's executor, or reports that no executor has
// the task.
func (a *EmbeddedAgent) killTask(id mesos.FrameworkID, taskID mesos.TaskID, policy *mesos.KillPolicy) {
	f := a.frameworks[id.Value]
	if f == nil || f.ending {
		return
	}
	e, t := f.executorOfTask(taskID.Value)
	switch {
	case t == nil && a.hasTask(id.Value, taskID.Value):
		// The task has ended; its terminal status is already on its way.
	case t == nil:
		a.storeStatus(id, a.newStatus(taskID, f.missingTaskState(), mesos.REASON_EXECUTOR_TERMINATED, "No executor has the task"))
	case !t.sent:
		a.agentStatus(e, t, mesos.TASK_KILLED, mesos.REASON_TASK_KILLED_DURING_LAUNCH, "Killed before delivery to the executor")
		a.shutdownUnused(e)
	default:
		e.sendEvent(&executor.Event{Type: executor.Event_KILL, Kill: &executor.Event_Kill{TaskID: taskID, KillPolicy: policy}})
	}
}

// reconcileTasks reports those of the tasks that the agent does not have: their
// launches were lost.
func (a *EmbeddedAgent) reconcileTasks(framework mesos.FrameworkInfo, tasks []mesos.TaskID) {
	for _, id := range tasks {
		if !a.hasTask(framework.GetID().GetValue(), id.Value) {
			a.storeStatus(*framework.ID, a.newStatus(id, events.OrLost(framework, mesos.TASK_DROPPED), mesos.REASON_RECONCILIATION, "The agent has no such task"))
		}
	}
}

// hasTask reports whether the agent has a task whose terminal status, if any, is
// not acknowledged.
func (a *EmbeddedAgent) hasTask(framework, id string) bool {
	if e := a.executorOf(framework, id); e != nil {
		return a.isIncomplete(e, e.findTask(id))
	}
	return a.streams.HasPending(updates.TaskKey{Framework: framework, Task: id})
}

// isIncomplete reports whether a task has not ended, or its terminal status is not
// acknowledged.
func (a *EmbeddedAgent) isIncomplete(e *executorState, t *taskState) bool {
	return !t.acked && !e.isCompleted() || a.streams.HasPending(updates.TaskKey{Framework: e.framework.id(), Task: t.info.TaskID.Value})
}

// shutdownUnused ends an executor whose tasks were all killed before it
// received one. It would otherwise wait forever.
func (a *EmbeddedAgent) shutdownUnused(e *executorState) {
	for _, t := range e.tasks {
		if t.sent || t.isLive() {
			return
		}
	}
	a.shutdownExecutor(e, termination{})
}

// acknowledgeStatus removes an acknowledged status from its queue.
func (a *EmbeddedAgent) acknowledgeStatus(framework mesos.FrameworkID, task mesos.TaskID, uuid []byte) {
	key := updates.TaskKey{Framework: framework.Value, Task: task.Value}
	acked, next, ok := a.streams.Ack(now(), key, uuid)
	if !ok {
		a.cfg.Log.WithField("task", task.Value).Debug("acknowledgement of no outstanding status")
		return
	}
	if events.IsTerminal(acked.GetState()) {
		if t := a.anyTask(framework.Value, task.Value); t != nil {
			t.acked = true
		}
	}
	if e := a.executorOf(framework.Value, task.Value); e != nil {
		a.saveExecutor(e)
	}
	a.forwardStatuses(next)
}

// anyTask finds a task of a live or completed executor.
func (a *EmbeddedAgent) anyTask(framework, id string) *taskState {
	if e := a.executorOf(framework, id); e != nil {
		return e.findTask(id)
	}
	return nil
}

// executorOf finds the live or completed executor of a task.
func (a *EmbeddedAgent) executorOf(framework, task string) *executorState {
	if f := a.frameworks[framework]; f != nil {
		for _, e := range f.executors {
			if e.findTask(task) != nil {
				return e
			}
		}
	}
	for _, e := range a.completed {
		if e.framework.id() == framework && e.findTask(task) != nil {
			return e
		}
	}
	return nil
}
