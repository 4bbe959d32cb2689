package master

import (
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/sched"
)

// endProofs says for each status that ends a task without its executor what it proves. The first row that matches decides.
// A nil state, source or reason matches all. docs/reference/api.md has the same table for users.
//
// Sources in Mesos 1.12: Master::reconcile, Master::reconcileKnownSlave, Master::accept, Master::removeSlave in
// src/master/master.cpp; Slave::reregistered, Slave::killTask, Slave::sendExecutorTerminatedStatusUpdate in
// src/slave/slave.cpp.
var endProofs = []struct {
	state  *mesos.TaskState
	source *mesos.TaskStatus_Source
	reason *mesos.TaskStatus_Reason
	proof  sched.EndProof
}{
	// An operator has marked the agent as gone: it is shut down if it returns.
	{state: mesos.TASK_GONE_BY_OPERATOR.Enum(), proof: sched.ProvenEnd},
	// The agent does not have the task: it says so when it registers again, and to a KILL.
	{state: mesos.TASK_DROPPED.Enum(), source: mesos.SOURCE_AGENT.Enum(), reason: mesos.REASON_RECONCILIATION.Enum(), proof: sched.AbsentFromAgent},
	{state: mesos.TASK_DROPPED.Enum(), source: mesos.SOURCE_AGENT.Enum(), reason: mesos.REASON_EXECUTOR_TERMINATED.Enum(), proof: sched.AbsentFromAgent},
	// The master repeats what the agent has said, until that is acknowledged.
	{state: mesos.TASK_DROPPED.Enum(), source: mesos.SOURCE_MASTER.Enum(), reason: mesos.REASON_RECONCILIATION.Enum(), proof: sched.AbsentFromAgent},
	// The agent or the executor has ended the task, or rejected its launch.
	{source: mesos.SOURCE_AGENT.Enum(), proof: sched.ProvenEnd},
	{source: mesos.SOURCE_EXECUTOR.Enum(), proof: sched.ProvenEnd},
	// The master has not sent the launch.
	{state: mesos.TASK_DROPPED.Enum(), source: mesos.SOURCE_MASTER.Enum(), proof: sched.ProvenEnd},
	// The agent has shut down, or its machine has registered under another id.
	{state: mesos.TASK_LOST.Enum(), reason: mesos.REASON_AGENT_REMOVED.Enum(), proof: sched.AgentRemoved},
	{state: mesos.TASK_GONE.Enum(), reason: mesos.REASON_AGENT_REMOVED.Enum(), proof: sched.AgentRemoved},
	// The master knows neither task nor agent.
	{state: mesos.TASK_UNKNOWN.Enum(), proof: sched.AgentUnknown},
	// The master does not know the task, and the agent is registered.
	{proof: sched.UnknownToMaster},
}

// proofOf returns what a status that ends a task without its executor proves.
func proofOf(s *mesos.TaskStatus) sched.EndProof {
	for _, row := range endProofs {
		isMatch := (row.state == nil || *row.state == s.GetState()) && (row.source == nil || s.Source != nil && *row.source == *s.Source) &&
			(row.reason == nil || s.Reason != nil && *row.reason == *s.Reason)
		if isMatch {
			return row.proof
		}
	}
	return sched.UnknownToMaster
}
