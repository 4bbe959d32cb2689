package master

import (
	"mesos-gpu/internal/minimesos/events"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// reconcileTasks sends the latest state of the given tasks, or of all tasks if
// none is given.
func (m *EmbeddedMaster) reconcileTasks(f *frameworkState, tasks []scheduler.Call_Reconcile_Task) {
	if len(tasks) == 0 {
		for _, t := range sortedValues(f.tasks) {
			f.sendEvent(events.NewUpdate(latestStatus(t)))
		}
		return
	}
	for _, asked := range tasks {
		f.sendEvent(events.NewUpdate(m.explainTask(f, asked)))
	}
}

// explainTask returns the state of one task as known to the master. It proves no
// end: the agent may run a task that the master does not know, and nothing is
// known about a task without its agent.
func (m *EmbeddedMaster) explainTask(f *frameworkState, asked scheduler.Call_Reconcile_Task) mesos.TaskStatus {
	id, agent := asked.TaskID.Value, asked.GetAgentID().GetValue()
	if t := f.tasks[id]; t != nil {
		return latestStatus(t)
	}
	state, message := mesos.TASK_UNKNOWN, "Reconciliation: Task is unknown"
	lost := m.lost[agent]
	switch {
	case m.agents[agent] != nil:
		state, message = mesos.TASK_GONE, "Reconciliation: Task is unknown to the agent"
	case lost != nil:
		state, message = mesos.TASK_UNREACHABLE, "Reconciliation: Task is unreachable"
	}
	s := masterStatus(asked.TaskID, agent, f.orLost(state), mesos.REASON_RECONCILIATION, message)
	if lost != nil {
		s.UnreachableTime = &lost.since
	}
	return s
}

// latestStatus returns the last status that was sent to the framework. If it is
// not acknowledged, it has its uuid.
func latestStatus(t *masterTask) mesos.TaskStatus {
	state := t.GetState()
	if t.StatusUpdateState != nil {
		state = *t.StatusUpdateState
	}
	s := masterStatus(t.TaskID, t.AgentID.Value, state, mesos.REASON_RECONCILIATION, "Reconciliation: Latest task state")
	s.ExecutorID = t.ExecutorID
	if n := len(t.Statuses); n > 0 {
		last := t.Statuses[n-1]
		s.Healthy, s.CheckStatus, s.ContainerStatus = last.Healthy, last.CheckStatus, last.ContainerStatus
	}
	return s
}
