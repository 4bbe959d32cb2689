package agent

import (
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"

	"mesos-gpu/internal/local/agent/status"
	"mesos-gpu/internal/local/link"
)

// fromMaster is the link.Agent that the master gets. Its methods only queue:
// the master may call them whatever it is doing.
type fromMaster struct{ a *Agent }

// Run implements link.Agent.
func (m fromMaster) Run(framework mesos.FrameworkInfo, ex mesos.ExecutorInfo, tasks []mesos.TaskInfo, group bool) {
	m.a.loop.post(func() { m.a.launch(framework, ex, tasks, group) })
}

// Kill implements link.Agent.
func (m fromMaster) Kill(framework mesos.FrameworkID, task mesos.TaskID, policy *mesos.KillPolicy) {
	m.a.loop.post(func() { m.a.kill(framework, task, policy) })
}

// Acknowledge implements link.Agent.
func (m fromMaster) Acknowledge(framework mesos.FrameworkID, task mesos.TaskID, uuid []byte) {
	m.a.loop.post(func() { m.a.acknowledge(framework, task, uuid) })
}

// Message implements link.Agent.
func (m fromMaster) Message(framework mesos.FrameworkID, id mesos.ExecutorID, data []byte) {
	m.a.loop.post(func() {
		if e := m.a.executor(framework.Value, id.Value); e != nil {
			e.send(&executor.Event{Type: executor.Event_MESSAGE, Message: &executor.Event_Message{Data: data}})
		}
	})
}

// ShutdownExecutor implements link.Agent.
func (m fromMaster) ShutdownExecutor(framework mesos.FrameworkID, id mesos.ExecutorID) {
	m.a.loop.post(func() {
		if e := m.a.executor(framework.Value, id.Value); e != nil {
			m.a.shutdown(e, termination{})
		}
	})
}

// ShutdownFramework implements link.Agent.
func (m fromMaster) ShutdownFramework(id mesos.FrameworkID) {
	m.a.loop.post(func() { m.a.shutdownFramework(id.Value) })
}

// shutdownFramework ends a framework's executors. What its tasks still have
// to say is dropped: nobody acknowledges it any more.
func (a *Agent) shutdownFramework(id string) {
	a.streams.Forget(id)
	a.reportExits()
	f := a.frameworks[id]
	if f == nil {
		return
	}
	f.ending = true
	for _, e := range f.executors {
		a.shutdown(e, termination{})
	}
}

func (a *Agent) executor(framework, id string) *executorRun {
	f := a.frameworks[framework]
	if f == nil {
		return nil
	}
	return f.executors[id]
}

// holder finds the executor that has a live task.
func (f *framework) holder(id string) (*executorRun, *task) {
	for _, e := range f.executors {
		if t := e.task(id); t != nil && t.live() {
			return e, t
		}
	}
	return nil, nil
}

// kill passes a kill on to the task's executor, or answers for it.
func (a *Agent) kill(id mesos.FrameworkID, taskID mesos.TaskID, policy *mesos.KillPolicy) {
	f := a.frameworks[id.Value]
	if f == nil {
		f = &framework{info: mesos.FrameworkInfo{ID: &id}}
	}
	e, t := f.holder(taskID.Value)
	switch {
	case f.ending:
	case t == nil && a.streams.Pending(status.Key{Framework: id.Value, Task: taskID.Value}):
		// It has ended; the framework will hear.
	case t == nil:
		a.add(id, a.status(taskID, f.gone(), mesos.REASON_TASK_UNKNOWN, "The agent knows no such task"))
	case !t.sent:
		a.killUnsent(e, t)
	default:
		e.send(&executor.Event{Type: executor.Event_KILL, Kill: &executor.Event_Kill{TaskID: taskID, KillPolicy: policy}})
	}
}

// killUnsent ends a task that its executor has not seen, and its group's. An
// executor that is left without any task it ever saw would wait for ever.
func (a *Agent) killUnsent(e *executorRun, t *task) {
	for _, other := range e.tasks {
		if other == t || t.group.together && other.group == t.group && other.live() {
			a.agentStatus(e, other, mesos.TASK_KILLED, mesos.REASON_TASK_KILLED_DURING_LAUNCH, "Killed before delivery to the executor")
		}
	}
	a.shutdownUnused(e)
}

// shutdownUnused ends an executor whose tasks were all killed before it saw
// one.
func (a *Agent) shutdownUnused(e *executorRun) {
	for _, t := range e.tasks {
		if t.sent || t.live() {
			return
		}
	}
	a.shutdown(e, termination{})
}

// acknowledge lets go of a status.
func (a *Agent) acknowledge(framework mesos.FrameworkID, task mesos.TaskID, uuid []byte) {
	key := status.Key{Framework: framework.Value, Task: task.Value}
	acked, next, ok := a.streams.Ack(now(), key, uuid)
	if !ok {
		a.cfg.Log.WithField("task", task.Value).Debug("acknowledgement of no outstanding status")
		return
	}
	if link.Terminal(acked.GetState()) {
		if t := a.anyTask(framework.Value, task.Value); t != nil {
			t.acked = true
		}
	}
	a.forward(next)
}

// anyTask finds a task, its executor alive or not.
func (a *Agent) anyTask(framework, id string) *task {
	if f := a.frameworks[framework]; f != nil {
		for _, e := range f.executors {
			if t := e.task(id); t != nil {
				return t
			}
		}
	}
	for _, e := range a.completed.executors {
		if e.framework.id() == framework {
			if t := e.task(id); t != nil {
				return t
			}
		}
	}
	return nil
}
