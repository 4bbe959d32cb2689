// Package link is what the embedded master and agents say to one another, in
// place of Apache Mesos's internal libprocess messages. Calls are
// asynchronous in spirit: an implementation must not call back into the other
// side while it holds a lock.
package link

import mesos "github.com/mesos/mesos-go/api/v1/lib"

// MasterLink is what an agent needs of its master.
type MasterLink interface {
	// Register adds the agent, or brings it back when info.ID names one the
	// master knows, with the executors and tasks that it still runs. It
	// returns the agent's id.
	Register(info mesos.AgentInfo, total []mesos.Resource, running []RunningExecutor, a AgentLink) (mesos.AgentID, error)
	// UpdateTotal replaces the agent's resources (a provider came, changed or
	// went). Outstanding offers of the agent are rescinded.
	UpdateTotal(id mesos.AgentID, total []mesos.Resource)
	// Status forwards a task's status. It is repeated by the agent until
	// Agent.Acknowledge arrives for its uuid.
	Status(id mesos.AgentID, framework mesos.FrameworkID, status mesos.TaskStatus)
	// ExecutorMessage forwards a MESSAGE call of an executor.
	ExecutorMessage(id mesos.AgentID, framework mesos.FrameworkID, executor mesos.ExecutorID, data []byte)
	// ExecutorExited says that an executor is gone and its resources free.
	// The agent has sent terminal statuses for its tasks before.
	ExecutorExited(id mesos.AgentID, framework mesos.FrameworkID, executor mesos.ExecutorID, status int32)
	// Lost says that the agent is gone. Its tasks are reported as
	// TASK_UNREACHABLE to partition-aware frameworks, TASK_LOST to others.
	Lost(id mesos.AgentID)
}

// RunningExecutor is an executor that an agent still runs when it registers.
type RunningExecutor struct {
	Framework mesos.FrameworkInfo
	Executor  mesos.ExecutorInfo
	Tasks     []mesos.TaskInfo
}

// AgentLink is what the master needs of an agent.
type AgentLink interface {
	// Run launches tasks of one executor, starting the executor if it does
	// not run. A command task's executor has Type UNKNOWN and no Command;
	// the agent supplies one. group says that the tasks came by LAUNCH_GROUP.
	Run(framework mesos.FrameworkInfo, executor mesos.ExecutorInfo, tasks []mesos.TaskInfo, group bool)
	// Kill asks the task's executor to kill it. A task the agent does not
	// know is answered with a terminal status.
	Kill(framework mesos.FrameworkID, task mesos.TaskID, policy *mesos.KillPolicy)
	// Acknowledge says that the framework has the status with that uuid.
	Acknowledge(framework mesos.FrameworkID, task mesos.TaskID, uuid []byte)
	// SendMessage delivers a scheduler's MESSAGE to an executor.
	SendMessage(framework mesos.FrameworkID, executor mesos.ExecutorID, data []byte)
	// ShutdownExecutor ends one executor, ShutdownFramework all of a
	// framework's.
	ShutdownExecutor(framework mesos.FrameworkID, executor mesos.ExecutorID)
	ShutdownFramework(framework mesos.FrameworkID)
}
